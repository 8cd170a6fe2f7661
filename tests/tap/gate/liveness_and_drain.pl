# Tests that unresponsive clients are closed, that a drain closes the other clients gracefully, and that a killed relay
# restarts.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::RawSocket qw(PING PONG);
use IO::Socket::IP;
use IO::Socket::UNIX;
use Test::More;
use Time::HiRes qw(time);

my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay(undef, $store, roles => 'gate',
    conf => { 'gate.ping' => '300ms', 'gate.pong_timeout' => '5s', 'gate.drain' => '2s' });

sub user { return Clairon::Test::RawSocket->user($relay, $_[0]) }

# The relay pings its clients.
my $began = time();
my ($pong_frames, $sends, $pongs, $silent) = map { user($_) } qw(replies talks pongs mute);
is($silent->next_message->{t}, 'ping', 'the relay sends a ping');
my $pings = 0;
my $dead;
while (!$dead)
{
    # Any frame proves that a client is alive; a client that sends no frames is closed.
    $_->wait_message('ping') for $pong_frames, $sends, $pongs;
    $pong_frames->send_json({ t => 'pong' });
    $sends->send_json({ t => 'ack', ids => ['0190f5c8-1111-7000-8000-000000000001'] });
    $pongs->frame(PONG, 'alive');
    $pings++;
    $dead = $relay->log_text =~ /code=4102 .*user="mute"/;
    die "no client was closed\n" if time() - $began > $Clairon::Test::SECONDS;
}
cmp_ok($pings, '>=', 2, 'a client that replies with any frame is pinged again');
$silent->ends_with(4102, 'a client without a pong');
$_->wait_message('ping') for $pong_frames, $sends, $pongs;
pass('the other clients stay connected');
$_->disconnect for $pong_frames, $sends, $pongs;
$relay->configure('gate.ping' => undef);
$relay->restart;

# A second relay starts on the same port.
my $second = Clairon::Test::relay(undef, $store, roles => 'gate', start => 0,
    conf => { 'gate.listen' => "127.0.0.1:$relay->{port}" });
$second->start;
is($second->wait_end >> 8, 1, 'startup fails if the port is in use');
my @errors = grep { /level=error/ } split /\n/, $second->log_text;
is(scalar(@errors), 1, 'a port in use is logged as one error');
like($second->log_text, qr/level=warn .*listen address in use: retrying/, 'the wait for a port in use is logged');
like($errors[0], qr/could not listen" listen="?127\.0\.0\.1:$relay->{port}"? error="Address already in use"/, 'the error names the address and the reason');
is(($relay->get('/readyz'))[0], 200, 'the first relay stays ready');

# Workers of a killed relay may still use the address for a short time.
my $folder = Clairon::Test::scratch();
for my $address ('127.0.0.1:' . Clairon::Test::free_port(), "unix:$folder/s")
{
    my ($path, $port) = $address =~ /^unix:(.*)|:(\d+)$/;
    my $held = defined $path ? IO::Socket::UNIX->new(Local => $path, Listen => 1) : IO::Socket::IP->new(LocalHost => '127.0.0.1', LocalPort => $port, ReuseAddr => 1, Listen => 1);
    my $late = Clairon::Test::relay(undef, $store, roles => 'gate', wait => 0, conf => { 'gate.listen' => $address });
    $late->wait_for_log(qr/listen address in use: retrying/);
    $held->close;
    $late->wait_for_log(qr/msg="?listening"? listen=/);
    pass("$address: the relay uses a released address");
    is($late->stop, 0, "SIGTERM ends the relay at $address with status 0");
}

# A draining relay releases the path of its Unix socket for the next relay, and does not remove the next relay's socket.
my $first = Clairon::Test::relay(undef, $store, roles => 'gate', wait => 0, conf => { 'gate.listen' => "unix:$folder/next", 'gate.drain' => '10m' });
$first->wait_for_log(qr/msg="?listening"? listen=/);
my $reads = IO::Socket::UNIX->new(Peer => "$folder/next") or die "no listener: $!\n";
$reads->syswrite("POST /v1/ack HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " . token(sub => 'u1') . "\r\nContent-Length: 20\r\nExpect: 100-continue\r\n\r\n");
$reads->sysread(my $word, 100);
like($word, qr/100 Continue/, 'a request is in progress');
kill TERM => $first->pid;
$first->wait_for_log(qr/draining/);
my $next = Clairon::Test::relay(undef, $store, roles => 'gate', wait => 0, conf => { 'gate.listen' => "unix:$folder/next" });
$next->wait_for_log(qr/msg="?listening"? listen=/);
ok($first->is_alive, 'the first relay drains');
$reads->close;
is($first->wait_end, 0, 'the first relay exits with status 0');
ok(IO::Socket::UNIX->new(Peer => "$folder/next"), 'the next relay listens at the same path');
is($next->stop, 0, 'SIGTERM ends the next relay with status 0');
ok(!-e "$folder/next", 'the last relay removes the socket');

# On SIGTERM, clients receive a reconnect delay, and new connections are rejected.
my @all     = map { user("user$_") } 1 .. 8;
my $waiting = Clairon::Test::RawSocket->open($relay);
my $half    = Clairon::Test::RawSocket->new($relay);
$half->write('GET /healthz HT');
my $stuck = Clairon::Test::RawSocket->open($relay);    # this socket never reads
kill TERM => $relay->pid;
my @ins = map { $_->ends_with(4201, 'a drain')->{in} } @all;
is(scalar(grep { defined $_ && $_ >= 0 && $_ <= 2000 } @ins), scalar(@all), 'each client receives a reconnect delay');
my %times = map { $_ => 1 } @ins;
cmp_ok(scalar(keys %times), '>', 4, 'the delays differ');
$waiting->ends_with(4201, 'a client without a connect frame');
is($relay->wait_end, 0, 'the relay exits with status 0, even with unresponsive sockets');
ok(!eval { Clairon::Test::RawSocket->new($relay); 1 }, 'the port is closed');

# A drain without connections ends immediately.
$relay->configure('gate.drain' => '10m');
$relay->start;
$relay->wait_ready;
is($relay->stop, 0, 'without connections the relay exits immediately');

# A second signal ends the drain.
$relay->start;
$relay->wait_ready;
my @connections = map { user("stay$_") } 1 .. 3;
my $mark = $relay->log_mark;
kill $_ => $relay->pid for qw(STOP TERM INT CONT);
is($relay->wait_end, 0, 'a second signal ends the relay');
like($relay->log_text($mark), qr/draining connections" count=3.*second signal received, stopping immediately/s, 'the second signal ends the relay immediately');
unlike($relay->log_text($mark), qr/drain finished/, 'the second signal skips the drain');
$relay->configure('gate.drain' => '2s');

# Before a drain, the relay is not ready, and serves its clients and new ones. With several workers, all of them do.
for my $workers (1, 2)
{
    $relay->configure('gate.notice' => '10m', 'gate.workers' => $workers);
    $relay->start;
    $relay->wait_ready;
    my $old = user('old');
    $mark = $relay->log_mark;
    kill TERM => $relay->pid;
    $relay->wait_for_log(qr/not ready, accepting clients/, from => $mark);    # another worker may not accept clients yet
    my $probe = Clairon::Test::RawSocket->new($relay)->request(GET => '/readyz');
    is($probe->{status}, 503, "$workers workers: the relay is not ready");
    is($probe->{json}{status}, 'draining', 'the status is draining');
    is($probe->{headers}{connection}, 'close', 'an HTTP connection ends after its response');
    my @served = ($old, map { user("new$_") } 1 .. 4 * $workers);
    $_->send_json({ t => 'ping' }) for @served;
    is_deeply([ map { $_->wait_message('pong')->{t} } @served ], [ ('pong') x @served ], 'all clients are served');
    kill TERM => $relay->pid;
    is($relay->wait_end, 0, 'a second signal ends the relay');
}
$relay->configure('gate.workers' => undef, 'gate.notice' => '300ms');
$relay->start;
$relay->wait_ready;
my $served = user('served');
kill TERM => $relay->pid;
$served->ends_with(4201, 'a client after the notice');
is($relay->wait_end, 0, 'after the notice, the relay drains');
$relay->configure('gate.notice' => '0s');

# After SIGKILL, the relay restarts with the same settings and port, without any saved state.
$relay->start;
$relay->wait_ready;
my @left = map { user("left$_") } 1 .. 3;
is($relay->kill9 & 127, 9, 'the relay is killed');
is($left[0]->read_to_end->{code}, 1006, 'the connections of a killed relay break');
$relay->start;
$relay->wait_ready;
is($relay->metric('clairon_gate_connections'), 0, 'the killed relay restarts on its port without connections');
my $reconnected = user('left1');
$reconnected->send_json({ t => 'ping' });
is($reconnected->wait_message('pong')->{t}, 'pong', 'the restarted relay serves clients');

# Without the store, the relay is alive but not ready; new clients are served after the relay reconnects.
$store->stop;
wait_until('the relay has lost its store connection', sub { ($relay->get('/readyz'))[0] == 503 });
is(($relay->get('/healthz'))[0], 200, 'without the store the relay is alive but not ready');
my $early = Clairon::Test::RawSocket->open($relay);
$early->send_json({ t => 'connect', r => 1, token => token(sub => 'early') });
$store->start;
is($early->wait_message('connected')->{user}, 'early', 'a client that connected without the store is served after the relay reconnects');
$relay->wait_ready;
is($relay->stop, 0, 'SIGTERM ends the relay with status 0');

done_testing();
