# What a client says behind its request, or that it says no more: is it answered all the same, and at no cost to others?
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::EventStream;
use Clairon::Test::RawSocket;
use Clairon::Test::SecureSocket;
use JSON ();
use Test::More;

my $has_tls = eval { require IO::Socket::SSL; 1 };
my $store   = Clairon::Test::store();
my $proxy   = Clairon::Test::proxy($store->{socket});
my ($cert, $key) = Clairon::Test::SecureSocket::certificate();
my %conf    = ('gate.ping' => '10m', 'gate.connect_timeout' => '2s', 'store.url' => $proxy->url('redis'));
my $relay   = Clairon::Test::relay(undef, $store, roles => 'gate', conf => {%conf});
my $secure  = Clairon::Test::relay(undef, $store, roles => 'gate', wait => 0, conf => { %conf, 'gate.tls_cert' => $cert, 'gate.tls_key' => $key });
$secure->wait_for_log(qr/store.*connected/);

my $none = '00000000-0000-0000-0000-000000000000';
my $note = '{"payload":{"n":1},"routing":{"audience":{"type":"USER","targets":["nobody"]}}}';
my $next = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
my @all  = (
    [ POST => '/v1/notifications', $note, 201 ], [ POST => '/v1/ack', "{\"ids\":[\"$none\"]}", 204 ],
    [ POST => '/v1/nack', "{\"ids\":[\"$none\"]}", 204 ], [ POST => '/v1/ticket', '', 200 ],
    [ GET => "/v1/notifications/$none", '', 404 ], [ GET => '/v1/poll?wait=0', '', 204 ], [ POST => '/v1/ack', '{', 400 ]);

sub head
{
    my ($method, $path, %headers) = @_;
    %headers = (Host => 'x', Authorization => 'Bearer ' . token(sub => 'u1', publish => JSON::true), %headers);
    return "$method $path HTTP/1.1\r\n" . join('', map { "$_: $headers{$_}\r\n" } sort keys %headers) . "\r\n";
}
sub request { my ($method, $path, $body) = @_; return head($method, $path, $method eq 'POST' ? ('Content-Length' => length $body) : ()) . $body }
sub said
{
    my ($tls, @pieces) = @_;
    my $raw = $tls ? Clairon::Test::SecureSocket->new($secure, $cert) : Clairon::Test::RawSocket->new($relay);
    $raw->write($_) for @pieces;
    return $raw;
}
sub say_no_more { my ($raw) = @_; ref($raw) =~ /Secure/ ? Net::SSLeay::shutdown($raw->{link}->_get_ssl_object) : shutdown $raw->{link}, 1; return $raw }
sub is_answered
{
    my ($raw, $status, $name) = @_;
    my $answer = $raw->read_response;
    is($answer->{status}, $status, $name);
    unlike($answer->{body}, qr/HTTP\/1/, 'once');
    return;
}

for my $tls (0, 1)
{
    next if $tls && !$has_tls;
    my $how = $tls ? ' over TLS' : '';
    for my $case (@all)
    {
        my ($method, $path, $body, $status) = @$case;
        my $text = request($method, $path, $body);
        is_answered(say_no_more(said($tls, $text)), $status, "$method $path$how of who says no more");
        is_answered(said($tls, $text . $next), $status, "$method $path$how with another request behind it");
        is_answered(said($tls, $text, $next), $status, "$method $path$how with another request after it");
        is_answered(said($tls, map { substr $text, $_, 1 } 0 .. length($text) - 1), $status, "$method $path$how byte by byte");
    }
    is_answered(say_no_more(said($tls, head(GET => '/v1/poll?wait=60'))), 204, "a poll that waits$how ends with its client's word, and is answered");
    is_answered(said($tls, head(GET => '/v1/poll?wait=0', @$_), 'hello'), 204, "a GET with a body$how: the body is passed over")
      for [ 'Content-Length' => 5 ], [ 'Content-Length' => 0 ], [ 'Transfer-Encoding' => 'chunked' ];
    is_answered(said($tls, head(GET => '/v1/poll?wait=0', 'Content-Length' => 5) . 'hello'), 204, "a GET with its body$how too");
    is_answered(said($tls, head(GET => '/v1/poll?wait=0', 'Content-Length' => $_), 'x' x 90_000), 413, "of which$how $_ bytes are too many") for 90_000, 9_000_000;
    is_answered(said($tls, head($_ => '/v1/poll?wait=0', 'Content-Length' => '5x')), 400, "$_ with a length$how that is no number") for qw(GET POST);
    my $stream = said($tls, head(GET => '/v1/sse'), $next);
    1 until $stream->{bytes} =~ /"t":"connected"/ || !$stream->more;
    say_no_more($stream);
    1 while $stream->more;
    unlike($stream->{bytes}, qr/healthz|"status"/, "a stream$how passes over what comes behind it, and ends with its client's word");
    is_answered(say_no_more(said($tls, substr request(@{ $all[0] }), 0, -1)), 0, "a body$how that does not end is not waited for");
}
is($relay->metric('clairon_gate_streams'), 0, 'nobody is left');

# An answer that is given before the body has come: who goes on sending it is not cut off before it could read.
for my $head (head(POST => '/v1/ack', Authorization => 'Bearer x', 'Content-Length' => 400_000), head(POST => '/v1/ack', 'Content-Length' => 40_000_000),
    head(POST => '/v1/ack', 'Transfer-Encoding' => 'chunked'), head(POST => '/v1/ack', Origin => 'http://evil.example', 'Content-Length' => 400_000),
    (map { head($_ => '/v1/nothing', 'Content-Length' => 400_000), head($_ => '/healthz', 'Content-Length' => 400_000) } qw(POST PUT DELETE)),
    head(POST => '/v1/nothing', 'Transfer-Encoding' => 'chunked'), head(GET => '/metrics', 'Content-Length' => 400_000), head(OPTIONS => '/v1/ack', 'Content-Length' => 400_000))
{
    my $raw = said(0, $head);
    1 until $raw->{bytes} =~ /\r\n\r\n.*\}/s || !$raw->more;
    my ($status) = $raw->{bytes} =~ /^HTTP\/1\.1 (\d+)/;
    is(scalar(grep { $raw->write('x' x 10_000) } 1 .. 40), 40, "who is told $status goes on");
    say_no_more($raw);
    1 while $raw->more;
    ok(!$raw->{reset}, 'and comes to an end in good order');
}
my $endless = said(0, head(POST => '/v1/ack', Authorization => 'Bearer x', 'Content-Length' => 900_000));
wait_until('it is cut off', sub { !$endless->write('x' x 100_000) });
pass('but not for ever');

# While they wait.
# What turns in circles wakes without end: tens of thousands of times a second. The rest wakes some dozens of times.
sub is_calm
{
    my ($name, $clock) = @_;
    my $before = $relay->metric('clairon_loop_turns_total');
    $clock->();
    cmp_ok($relay->metric('clairon_loop_turns_total') - $before, '<', 3000, $name);
    return;
}
# A pause between the head and what is behind, from none to what a turn of the loop takes: some of
# them come after the head was looked at and before it is read.
my @behind = map { my $raw = said(0, head(GET => '/v1/sse')); 1 for 1 .. 40 * ($_ % 60); $raw->write($next); $raw } 1 .. 200;
wait_until('they are there', sub { $relay->metric('clairon_gate_streams') == @behind });
is_calm('streams with bytes behind their heads wait', sub { said(0, head(GET => '/v1/poll?wait=2'))->read_response });
$_->disconnect for @behind;
$proxy->freeze;
my @waiting = map { said(0, request(@{ $all[0] }) . 'x', 'y') } 1 .. 3;
push @waiting, map { say_no_more(said(0, request(@{ $all[0] }))) } 1 .. 3;
is_calm('so do requests that wait for the store', sub { is(said(0, head(POST => '/v1/ack', 'Content-Length' => 9))->read_response->{status}, 408, 'a body is waited for') });
$proxy->thaw;
is_deeply([ map { $_->read_response->{status} } @waiting ], [ (201) x 6 ], 'and are answered when it is back');
is($_->stop, 0, 'SIGTERM ends the relay in good order') for $relay, $secure;

done_testing();
