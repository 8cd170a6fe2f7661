# Is who does not answer let go, who stays sent away kindly, and does a relay that died come back?
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
    conf => { 'gate.ping' => '300ms', 'gate.pong_timeout' => '1500ms', 'gate.drain' => '2s' });

sub user { return Clairon::Test::RawSocket->user($relay, $_[0]) }

# Pings.
my $began = time();
my ($answers, $talks, $pongs, $mute) = map { user($_) } qw(answers talks pongs mute);
is($mute->next_message->{t}, 'ping', 'the relay asks who lives');
my $asked = 0;
my $dead;
while (!$dead)
{
    # Any frame is a sign of life; the one that gives none is let go meanwhile.
    $_->wait_message('ping') for $answers, $talks, $pongs;
    $answers->send_json({ t => 'pong' });
    $talks->send_json({ t => 'ack', ids => ['0190f5c8-1111-7000-8000-000000000001'] });
    $pongs->frame(PONG, 'alive');
    $asked++;
    $dead = $relay->log_text =~ /user=mute.*closes with 4102/;
    die "nobody was let go\n" if time() - $began > $Clairon::Test::SECONDS;
}
cmp_ok($asked, '>=', 2, 'who answers in whatever way is asked again');
$mute->ends_with(4102, 'no answer');
$_->wait_message('ping') for $answers, $talks, $pongs;
pass('the others stay');
$_->disconnect for $answers, $talks, $pongs;
$relay->configure('gate.ping' => undef);
$relay->restart;

# A second relay on the same port.
my $second = Clairon::Test::relay(undef, $store, roles => 'gate', start => 0,
    conf => { 'gate.listen' => "127.0.0.1:$relay->{port}" });
$second->start;
is($second->wait_end >> 8, 1, 'a port that is taken ends the start');
my @errors = grep { /level=error/ } split /\n/, $second->log_text;
is(scalar(@errors), 1, 'with one sentence');
like($second->log_text, qr/level=warn .*waiting for it/, 'after a while, which is told');
like($errors[0], qr/could not listen on 127\.0\.0\.1:$relay->{port}: Address already in use/, 'that says why');
is(($relay->get('/readyz'))[0], 200, 'and the first does not notice');

# As the workers of a relay that was killed: they hold its place for a moment.
my $folder = Clairon::Test::scratch();
for my $place ('127.0.0.1:' . Clairon::Test::free_port(), "unix:$folder/s")
{
    my ($path, $port) = $place =~ /^unix:(.*)|:(\d+)$/;
    my $held = defined $path ? IO::Socket::UNIX->new(Local => $path, Listen => 1) : IO::Socket::IP->new(LocalHost => '127.0.0.1', LocalPort => $port, ReuseAddr => 1, Listen => 1);
    my $late = Clairon::Test::relay(undef, $store, roles => 'gate', wait => 0, conf => { 'gate.listen' => $place });
    $late->wait_for_log(qr/waiting for it/);
    $held->close;
    $late->wait_for_log(qr/listening on/);
    pass("$place: a place that is let go is taken");
    is($late->stop, 0, 'SIGTERM ends the relay in good order');
}

# A unix socket is free for the next relay once its own begins to drain, and stays that one's when it has.
my $first = Clairon::Test::relay(undef, $store, roles => 'gate', wait => 0, conf => { 'gate.listen' => "unix:$folder/next", 'gate.drain' => '10m' });
$first->wait_for_log(qr/started, pid/);
my $reads = IO::Socket::UNIX->new(Peer => "$folder/next") or die "nobody listens: $!\n";
$reads->syswrite("POST /v1/ack HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " . token(sub => 'u1') . "\r\nContent-Length: 20\r\nExpect: 100-continue\r\n\r\n");
$reads->sysread(my $word, 100);
like($word, qr/100 Continue/, 'a request is under way');
kill TERM => $first->pid;
$first->wait_for_log(qr/draining/);
my $next = Clairon::Test::relay(undef, $store, roles => 'gate', wait => 0, conf => { 'gate.listen' => "unix:$folder/next" });
$next->wait_for_log(qr/started, pid/);
ok($first->is_alive, 'while the first relay drains ..');
$reads->close;
is($first->wait_end, 0, '.. and ends in good order ..');
ok(IO::Socket::UNIX->new(Peer => "$folder/next"), '.. the next one takes its place, and is found there');
is($next->stop, 0, 'SIGTERM ends the relay in good order');
ok(!-e "$folder/next", 'the last one takes its socket away');

# SIGTERM: everyone is told when to come back, nobody new is let in.
my @all     = map { user("user$_") } 1 .. 8;
my $waiting = Clairon::Test::RawSocket->open($relay);
my $half    = Clairon::Test::RawSocket->new($relay);
$half->write('GET /healthz HT');
my $stuck = Clairon::Test::RawSocket->open($relay);    # never reads again
kill TERM => $relay->pid;
my @ins = map { $_->ends_with(4201, 'a drain')->{in} } @all;
is(scalar(grep { defined $_ && $_ >= 0 && $_ <= 2000 } @ins), scalar(@all), 'each is told when to come back');
my %times = map { $_ => 1 } @ins;
cmp_ok(scalar(keys %times), '>', 4, 'not all at the same time');
$waiting->ends_with(4201, 'who had said nothing yet');
is($relay->wait_end, 0, 'the relay ends in good order, also with sockets that do not listen');
ok(!eval { Clairon::Test::RawSocket->new($relay); 1 }, 'its port is closed');

# A drain without connections is no wait.
$relay->configure('gate.drain' => '10m');
$relay->start;
$relay->wait_ready;
is($relay->stop, 0, 'nobody connected: it ends at once');

# Told twice, it waits for nobody.
$relay->start;
$relay->wait_ready;
my @stay = map { user("stay$_") } 1 .. 3;
my $mark = $relay->log_mark;
kill $_ => $relay->pid for qw(STOP TERM INT CONT);
is($relay->wait_end, 0, 'told twice it ends');
like($relay->log_text($mark), qr/draining 3 connections.*again, stopping at once/s, 'at once');
unlike($relay->log_text($mark), qr/connections left/, 'and waits for nobody');
$relay->configure('gate.drain' => '2s');

# kill -9: the same settings, the same port, and no memory needed.
$relay->start;
$relay->wait_ready;
my @left = map { user("left$_") } 1 .. 3;
is($relay->kill9 & 127, 9, 'a relay is killed');
is($left[0]->read_to_end->{code}, 1006, 'its connections break');
$relay->start;
$relay->wait_ready;
is($relay->metric('clairon_gate_connections'), 0, 'it comes back on its port, empty');
my $back = user('left1');
$back->send_json({ t => 'ping' });
is($back->wait_message('pong')->{t}, 'pong', 'and serves');

# The store away: alive, not ready, and who comes is served when it is back.
$store->stop;
wait_until('the relay sees it', sub { ($relay->get('/readyz'))[0] == 503 });
is(($relay->get('/healthz'))[0], 200, 'without its store a relay lives but is not ready');
my $early = Clairon::Test::RawSocket->open($relay);
$early->send_json({ t => 'connect', r => 1, token => token(sub => 'early') });
$store->start;
is($early->wait_message('connected')->{user}, 'early', 'who came meanwhile is connected once it is back');
$relay->wait_ready;
is($relay->stop, 0, 'SIGTERM ends the relay in good order');

done_testing();
