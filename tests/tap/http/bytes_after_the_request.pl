# Tests that bytes after a request, or a half-close, do not prevent the response or affect other clients.
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
$secure->wait_for_log(qr/listening/);

my $none = '00000000-0000-0000-0000-000000000000';
my $notification = '{"payload":{"n":1},"routing":{"audience":{"type":"USER","targets":["nobody"]}}}';
my $next = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
my @all  = (
    [ POST => '/v1/notifications', $notification, 201 ], [ POST => '/v1/ack', "{\"ids\":[\"$none\"]}", 204 ],
    [ POST => '/v1/nack', "{\"ids\":[\"$none\"]}", 204 ], [ POST => '/v1/ticket', '', 200 ],
    [ GET => "/v1/notifications/$none", '', 404 ], [ GET => '/v1/poll?wait=0', '', 204 ], [ POST => '/v1/ack', '{', 400 ]);

sub head
{
    my ($method, $path, %headers) = @_;
    %headers = (Host => 'x', Authorization => 'Bearer ' . token(sub => 'u1', publish => JSON::true), %headers);
    return "$method $path HTTP/1.1\r\n" . join('', map { "$_: $headers{$_}\r\n" } sort keys %headers) . "\r\n";
}
sub request { my ($method, $path, $body) = @_; return head($method, $path, $method eq 'POST' ? ('Content-Length' => length $body) : ()) . $body }
sub send_pieces
{
    my ($tls, @pieces) = @_;
    my $raw = $tls ? Clairon::Test::SecureSocket->new($secure, $cert) : Clairon::Test::RawSocket->new($relay);
    $raw->write($_) for @pieces;
    return $raw;
}
sub half_close { my ($raw) = @_; ref($raw) =~ /Secure/ ? Net::SSLeay::shutdown($raw->{link}->_get_ssl_object) : shutdown $raw->{link}, 1; return $raw }
sub check_status
{
    my ($raw, $status, $name) = @_;
    my $response = $raw->read_response;
    is($response->{status}, $status, "$name returns $status");
    unlike($response->{body}, qr/HTTP\/1/, "$name returns one response");
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
        check_status(half_close(send_pieces($tls, $text)), $status, "$method $path$how before a half-close");
        check_status(send_pieces($tls, $text . $next), $status, "$method $path$how with another request in the same packet");
        check_status(send_pieces($tls, $text, $next), $status, "$method $path$how with another request later");
        check_status(send_pieces($tls, map { substr $text, $_, 1 } 0 .. length($text) - 1), $status, "$method $path$how byte by byte");
    }
    my $wait = $tls ? 2 : 60;    # over TLS, a half-close does not end the wait
    check_status(half_close(send_pieces($tls, head(GET => "/v1/poll?wait=$wait"))), 204, "a waiting poll$how before a half-close");
    check_status(send_pieces($tls, head(GET => '/v1/poll?wait=0', @$_), 'hello'), 204, "a GET with an ignored body$how")
      for [ 'Content-Length' => 5 ], [ 'Content-Length' => 0 ], [ 'Transfer-Encoding' => 'chunked' ];
    check_status(send_pieces($tls, head(GET => '/v1/poll?wait=0', 'Content-Length' => 5) . 'hello'), 204, "a GET with a Content-Length$how");
    check_status(send_pieces($tls, head(GET => '/v1/poll?wait=0', 'Content-Length' => $_), 'x' x 90_000), 413, "a body of $_ bytes$how") for 90_000, 9_000_000;
    check_status(send_pieces($tls, head($_ => '/v1/poll?wait=0', 'Content-Length' => '5x')), 400, "$_ with a length$how that is not a number") for qw(GET POST);
    my $stream = send_pieces($tls, head(GET => '/v1/sse'), $next);
    1 until $stream->{bytes} =~ /"t":"connected"/ || !$stream->more;
    half_close($stream);
    1 while $stream->more;
    unlike($stream->{bytes}, qr/healthz|"status"/, "a stream$how ignores bytes after its request and ends at a half-close");
    check_status(half_close(send_pieces($tls, substr request(@{ $all[0] }), 0, -1)), 0, "an incomplete body$how before a half-close");
}
is($relay->metric('clairon_gate_streams'), 0, 'no stream remains open');

# The response precedes the body. The connection of a client that is still sending is not reset before the client can
# read the response.
for my $head (head(POST => '/v1/ack', Authorization => 'Bearer x', 'Content-Length' => 400_000), head(POST => '/v1/ack', 'Content-Length' => 40_000_000),
    head(POST => '/v1/ack', 'Transfer-Encoding' => 'chunked'), head(POST => '/v1/ack', Origin => 'http://evil.example', 'Content-Length' => 400_000),
    (map { head($_ => '/v1/nothing', 'Content-Length' => 400_000), head($_ => '/healthz', 'Content-Length' => 400_000) } qw(POST PUT DELETE)),
    head(POST => '/v1/nothing', 'Transfer-Encoding' => 'chunked'), head(GET => '/metrics', 'Content-Length' => 400_000), head(OPTIONS => '/v1/ack', 'Content-Length' => 400_000))
{
    my $raw = send_pieces(0, $head);
    1 until $raw->{bytes} =~ /\r\n\r\n/ || !$raw->more;
    my ($status) = $raw->{bytes} =~ /^HTTP\/1\.1 (\d+)/;
    is(scalar(grep { $raw->write('x' x 10_000) } 1 .. 40), 40, "a client with $status can continue to send");
    half_close($raw);
    1 while $raw->more;
    ok(!$raw->{reset}, "the connection of a client with $status is closed without a reset");
}
my $endless = send_pieces(0, head(POST => '/v1/ack', Authorization => 'Bearer x', 'Content-Length' => 900_000));
wait_until('the connection is closed', sub { !$endless->write('x' x 100_000) });
pass('a rejected client can send only a limited number of bytes');

# The loop is idle while connections wait: a busy loop has tens of thousands of iterations per second, an idle loop a
# few dozen.
sub check_idle
{
    my ($name, $clock) = @_;
    my $before = $relay->metric('clairon_loop_turns_total');
    $clock->();
    cmp_ok($relay->metric('clairon_loop_turns_total') - $before, '<', 3000, "the loop is idle while $name");
    return;
}
# The bytes after the head are sent after pauses of up to one loop iteration, so that some bytes arrive between the
# check of the head and the read of the head.
my @behind = map { my $raw = send_pieces(0, head(GET => '/v1/sse')); 1 for 1 .. 40 * ($_ % 60); $raw->write($next); $raw } 1 .. 200;
wait_until('all streams are open', sub { $relay->metric('clairon_gate_streams') == @behind });
check_idle('streams wait with unread bytes', sub { send_pieces(0, head(GET => '/v1/poll?wait=2'))->read_response });
$_->disconnect for @behind;
$proxy->freeze;
my @waiting = map { send_pieces(0, request(@{ $all[0] }) . 'x', 'y') } 1 .. 3;
push @waiting, map { half_close(send_pieces(0, request(@{ $all[0] }))) } 1 .. 3;
check_idle('requests wait for the store', sub { is(send_pieces(0, head(POST => '/v1/ack', 'Content-Length' => 9))->read_response->{status}, 408, 'a missing body times out') });
$proxy->thaw;
is_deeply([ map { $_->read_response->{status} } @waiting ], [ (201) x 6 ], 'the waiting requests receive a response after the store reconnects');
is($_->stop, 0, 'SIGTERM ends the relay with status 0') for $relay, $secure;

done_testing();
