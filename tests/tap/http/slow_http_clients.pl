# Tests that an HTTP client that reads or writes too slowly affects only itself.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::EventStream;
use Clairon::Test::RawSocket;
use IO::Socket::IP;
use JSON ();
use Socket qw(IPPROTO_TCP SOL_SOCKET SO_RCVBUF TCP_MAXSEG);
use Test::More;

my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay(undef, $store, roles => 'gate',
    conf => { 'gate.slow_age' => '6s', 'gate.connect_timeout' => '2s' });
my $text = 'x' x 200_000;

sub post
{
    my ($n) = @_;
    my $body = JSON::encode_json({ payload => { n => $n, text => $text }, routing => { audience => { type => 'ALL' } } });
    my $raw = Clairon::Test::RawSocket->new($relay);
    $raw->write("POST /v1/notifications HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "
          . token(sub => 'api', publish => JSON::true) . "\r\nContent-Length: " . length($body) . "\r\n\r\n$body");
    return $raw->read_response->{status};
}

sub kilobytes
{
    open my $file, '<', '/proc/' . $relay->pid . '/status' or die "no status: $!";
    my ($rss) = map { /^VmRSS:\s+(\d+)/ } <$file>;
    return $rss;
}

# Many clients open SSE streams and do not read.
my @stalled = map { Clairon::Test::EventStream->open($relay, "deaf$_") } 1 .. 10;
my $good = Clairon::Test::EventStream->open($relay, 'good');
$_->wait_message('connected') for @stalled, $good;
my $before = kilobytes();
my @seen;
for my $n (1 .. 30)
{
    post($n) == 201 or die "notification $n was not accepted\n";
    push @seen, $good->next_notification->{payload}{n};
}
is_deeply(\@seen, [ 1 .. 30 ], 'a client that reads receives all notifications');
my $grown = kilobytes() - $before;
note("memory grew by $grown kB");
SKIP: {
    skip 'a sanitizer allocates additional memory', 1 if Clairon::Test::is_sanitized();
    cmp_ok($grown, '<', 45_000, 'clients that do not read use little memory');
}
wait_until('the connections are closed', sub { $relay->metric('clairon_gate_streams') == 1 });
pass('clients that do not read are closed');
my $pos = $stalled[0]{id};
$_->disconnect for @stalled;
my $reconnected = Clairon::Test::EventStream->open($relay, 'deaf1', 'Last-Event-ID' => $pos);
is($reconnected->wait_message('connected')->{resumed}, JSON::true, 'a closed client resumes');
is_deeply([ map { $reconnected->next_notification->{payload}{n} } 1 .. 30 ], [ 1 .. 30 ], 'a resumed client receives all missed notifications');
$_->disconnect for $reconnected, $good;

# A large response over a slow connection may take longer than five seconds, the time allowed without progress.
my $slow_reader = Clairon::Test::RawSocket->new($relay);
$slow_reader->{link} = IO::Socket::IP->new(PeerHost => '127.0.0.1', PeerPort => $relay->{port},
    Sockopts => [ [ SOL_SOCKET, SO_RCVBUF, 4096 ], [ IPPROTO_TCP, TCP_MAXSEG, 536 ] ]) or die "could not connect: $@\n";
$slow_reader->{link}->blocking(0);
$slow_reader->write("GET /v1/poll?pos=$pos HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer " . token(sub => 'deaf2') . "\r\n\r\n");
my ($began, $bytes) = (time(), '');
wait_until('the time limit has passed', sub {
    sysread $slow_reader->{link}, $bytes, 100, length $bytes;
    return time() - $began > 7;
});
1 while $slow_reader->more;
$bytes .= $slow_reader->{bytes};
my ($len) = $bytes =~ /\r\nContent-Length: (\d+)\r\n/;
cmp_ok($len, '>', 1_000_000, 'the response is large');
is(length((split /\r\n\r\n/, $bytes, 2)[1]), $len, 'a slow client receives the complete response');

# Requests arrive slowly.
my $half = Clairon::Test::RawSocket->new($relay);
$half->write("POST /v1/ack HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " . token(sub => 'u1') . "\r\nContent-Length: 100\r\n\r\n{\"ids\":");
my $slow = Clairon::Test::RawSocket->new($relay);
$slow->write("GET /v1/sse HTTP/1.1\r\nHost: x\r\nAuthor");
my @many = map { my $raw = Clairon::Test::RawSocket->new($relay); $raw->write("POST /v1/ack HTTP/1.1\r\n"); $raw } 1 .. 100;
is(($relay->get('/healthz'))[0], 200, 'other clients are served while requests are incomplete');
is($half->read_response->{status}, 408, 'an incomplete body times out');
$_->disconnect for @many, $slow;
is(($relay->get('/healthz'))[0], 200, 'the relay still serves requests');
is($relay->stop, 0, 'SIGTERM ends the relay with status 0');

done_testing();
