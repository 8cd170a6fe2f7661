# Does the log, or the answer, name the cause of what goes wrong on a developer's first day?
use strict;
use warnings;

use Clairon::Test qw(token);
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

my $store = Clairon::Test::store();
my ($relay, $listed, $quiet) = map { Clairon::Test::relay(undef, $store, roles => 'gate', conf => $_) } {}, { 'gate.origins' => 'https://app.example' }, {};
sub ask { my ($at, @more) = @_; return Clairon::Test::RawSocket->new($at)->request(@more) }
sub lines { my ($at, $what) = @_; return scalar(() = $at->log_text =~ /$what/g) }

# Origins.
is(ask($relay, GET => '/v1/poll?wait=0', Origin => 'http://dev.example:3000', Authorization => 'Bearer ' . token(sub => 'u1'))->{status}, 403, 'an origin is refused')
  for 1 .. 5;
like($relay->log_text, qr/level=warn .*origin not allowed" origin="?http:\/\/dev\.example:3000"? host="?127\.0\.0\.1.*only the same host is allowed.*gate\.origins/, 'the log names it, and why');
is(lines($relay, 'origin not allowed'), 1, 'not each time');
is(Clairon::Test::RawSocket->open($listed, Origin => 'http://other.example')->{response}{status}, 403, 'one that is not in the list too');
like($listed->log_text, qr/origin not allowed" origin="?http:\/\/other\.example"? origins="?https:\/\/app\.example/, 'the log has the list');

# Tokens.
my $wrong = token(sub => 'u1', secret => "$Clairon::Test::SECRET\n");
is(ask($relay, GET => '/v1/poll', Authorization => "Bearer $wrong")->{status}, 401, 'a token that was signed with the newline too is refused') for 1 .. 5;
like($relay->log_text, qr/level=info .*token rejected" path="?\/v1\/poll"? error=".*signature does not match".*hint="the HS256 key is the text of auth\.hs256_secret_file without its final newline/, 'the log names the trap');
is(lines($relay, 'token rejected'), 1, 'not each time');
unlike($relay->log_text, qr/\Q$wrong\E|\Q$Clairon::Test::SECRET\E/, 'and neither token nor key');
unlike(ask($relay, GET => '/v1/poll', Authorization => "Bearer $wrong")->{body}, qr/newline|secret/, 'the client is not told of the key');
my $raw = Clairon::Test::RawSocket->open($quiet);
$raw->send_json({ t => 'connect', token => token(sub => 42) });
is($raw->read_to_end->{code}, 4001, 'a sub that is a number is refused');
like($quiet->log_text, qr/token rejected" path="?\/v1\/ws"? error="the token's sub must be a text of 1 to 255 bytes, as \\?"42\\?", not 42/, 'the log says what it must be');

# The reason of a refusal over HTTP is in the body, and pages of an allowed origin may read it.
for my $path ('/v1/poll', '/v1/sse')
{
    my $answer = ask($listed, GET => $path, Origin => 'https://app.example', Authorization => 'Bearer ' . token(sub => 'u1', exp => time() - 60));
    is_deeply([ $answer->{status}, @{ $answer->{json} }{qw(status code detail)} ], [ 401, 401, 109, 'the token has expired' ], "$path: the body has the reason");
    is($answer->{headers}{'access-control-allow-origin'}, 'https://app.example', "$path: and the page may read it");
}

# Fields in a wrong place, and paths.
for my $case ([ audience => 'routing.audience' ], [ targets => 'routing.audience.targets' ], [ topic => 'metadata.topic' ], [ retry => 'routing.retry' ])
{
    my $answer = ask($relay, POST => '/v1/notifications', Authorization => 'Bearer ' . token(sub => 'api', publish => JSON::true), ':body' => { $case->[0] => {}, payload => {} });
    is($answer->{json}{detail}, "unknown field: $case->[0]; did you mean $case->[1]?", "$case->[0] in the wrong place: where it belongs");
}
is(ask($relay, GET => '/console')->{json}{detail}, 'console disabled; enable it with gate.console = on', 'the console says that it is off');
like(ask($relay, GET => '/')->{json}{detail}, qr/clairon relay; clients connect to \/v1\/ws/, '/ says what this is');
is($_->stop, 0, 'SIGTERM ends the relay in good order') for $relay, $listed, $quiet;
done_testing();
