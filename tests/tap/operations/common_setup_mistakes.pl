# Tests that the log or the response states the cause of common setup mistakes.
use strict;
use warnings;

use Clairon::Test qw(token);
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

my $store = Clairon::Test::store();
my ($relay, $listed, $quiet) = map { Clairon::Test::relay(undef, $store, roles => 'gate', conf => $_) } {}, { 'gate.origins' => 'https://app.example' }, {};
sub request { my ($at, @more) = @_; return Clairon::Test::RawSocket->new($at)->request(@more) }
sub count_lines { my ($at, $what) = @_; return scalar(() = $at->log_text =~ /$what/g) }

# The origin is not allowed.
is(request($relay, GET => '/v1/poll?wait=0', Origin => 'http://dev.example:3000', Authorization => 'Bearer ' . token(sub => 'u1'))->{status}, 403, 'an origin of another host is rejected')
  for 1 .. 5;
like($relay->log_text, qr/level=warn .*origin not allowed" origin="?http:\/\/dev\.example:3000"? host="?127\.0\.0\.1.*only the same host is allowed.*gate\.origins/, 'the log contains the origin and the reason');
is(count_lines($relay, 'origin not allowed'), 1, 'the origin is logged once');
is(Clairon::Test::RawSocket->open($listed, Origin => 'http://other.example')->{response}{status}, 403, 'an origin that is not listed is rejected');
like($listed->log_text, qr/origin not allowed" origin="?http:\/\/other\.example"? origins="?https:\/\/app\.example/, 'the log contains the list');

# The token is signed with a wrong key, or has an invalid claim.
my $wrong = token(sub => 'u1', secret => "$Clairon::Test::SECRET\n");
is(request($relay, GET => '/v1/poll', Authorization => "Bearer $wrong")->{status}, 401, 'a token signed with the key\'s trailing newline is rejected') for 1 .. 5;
like($relay->log_text, qr/level=warn .*token rejected" path="?\/v1\/poll"? error="invalid token signature".*hint="the HS256 key is the content of auth\.hs256_secret_file without its final newline/, 'the log explains that the key is used without its newline');
is(count_lines($relay, 'token rejected'), 1, 'the message about the newline is logged once');
unlike($relay->log_text, qr/\Q$wrong\E|\Q$Clairon::Test::SECRET\E/, 'the log contains neither token nor key');
unlike(request($relay, GET => '/v1/poll', Authorization => "Bearer $wrong")->{body}, qr/newline|secret/, 'the response does not mention the key');
my $raw = Clairon::Test::RawSocket->open($quiet);
$raw->send_json({ t => 'connect', token => token(sub => 42) });
is($raw->read_to_end->{code}, 4001, 'a numeric sub is rejected');
like($quiet->log_text, qr/token rejected" path="?\/v1\/ws"? error="token claim sub must be a string, such as \\?"42\\?", not 42/, 'the log contains the valid form');

like(request($quiet, GET => '/v1/poll', Authorization => 'Bearer ' . token(sub => $_))->{body}, qr/"detail":"token claim sub must have 1 to 255 bytes"/, 'the error for a sub of ' . length . ' bytes contains the limit')
  for '', 'x' x 256;

# The body of an HTTP error contains the reason, and pages of an allowed origin can read it.
for my $path ('/v1/poll', '/v1/sse')
{
    my $response = request($listed, GET => $path, Origin => 'https://app.example', Authorization => 'Bearer ' . token(sub => 'u1', exp => time() - 60));
    is_deeply([ $response->{status}, @{ $response->{json} }{qw(status code detail)} ], [ 401, 401, 109, 'token expired' ], "$path: the body contains the reason");
    is($response->{headers}{'access-control-allow-origin'}, 'https://app.example', "$path: the page can read the body");
}

# Fields are in a wrong object, or paths do not exist.
for my $case ([ audience => 'routing.audience' ], [ targets => 'routing.audience.targets' ], [ topic => 'metadata.topic' ], [ retry => 'routing.retry' ])
{
    my $response = request($relay, POST => '/v1/notifications', Authorization => 'Bearer ' . token(sub => 'api', publish => JSON::true), ':body' => { $case->[0] => {}, payload => {} });
    is($response->{json}{detail}, "unknown field: $case->[0]; did you mean $case->[1]?", "$case->[0] in the wrong object is rejected with a suggestion");
}
is(request($relay, GET => '/console')->{json}{detail}, 'console disabled; enable it with gate.console = on', 'the console reports that it is off');
like(request($relay, GET => '/')->{json}{detail}, qr/clairon relay; clients connect to \/v1\/ws/, 'the response to / describes the server');
is($_->stop, 0, 'SIGTERM ends the relay with status 0') for $relay, $listed, $quiet;
done_testing();
