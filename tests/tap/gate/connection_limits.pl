# Are too many clients told so, before they cost anything, and does the kill switch leave polling?
use strict;
use warnings;

use Clairon::Test qw(wait_until token children);
use Clairon::Test::EventStream;
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

my $store = Clairon::Test::store();

sub with { return Clairon::Test::relay(undef, $store, roles => 'gate', conf => {@_}) }

sub upgrade
{
    my ($relay, %headers) = @_;
    my $raw = Clairon::Test::RawSocket->open($relay, %headers);
    return $raw;
}

sub status { my ($relay, %headers) = @_; return upgrade($relay, %headers)->{response}{status} }
sub sse { my ($relay, $user, %headers) = @_; return Clairon::Test::EventStream->open($relay, $user, %headers) }

sub poll
{
    my ($relay, $user, %headers) = @_;
    return Clairon::Test::RawSocket->new($relay)->request(GET => '/v1/poll?wait=0',
        Authorization => 'Bearer ' . token(sub => $user), %headers);
}

sub post
{
    my ($relay, $path, $body, %claims) = @_;
    my $raw = Clairon::Test::RawSocket->new($relay);
    $raw->write("POST $path HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "
          . token(sub => 'a1', %claims) . "\r\nContent-Length: " . length($body) . "\r\n\r\n$body");
    return $raw->read_response->{status};
}

# max_connections counts SSE and polls too.
my $relay = with('gate.max_connections' => 2);
my $ws    = Clairon::Test::RawSocket->user($relay, 'u1');
my $sse   = sse($relay, 'u2');
$sse->wait_message('connected');
my $full = upgrade($relay)->{response};
is($full->{status}, 503, 'a WebSocket beyond max_connections is refused before the upgrade');
like($full->{headers}{'retry-after'}, qr/^[1-9]\d*$/, 'and told when to come back');
is(sse($relay, 'u3')->{status}, 503, 'SSE too');
is(poll($relay, 'u3')->{status}, 503, 'a poll too');
is(($relay->get('/healthz'))[0], 200, 'who only looks is answered');
$ws->disconnect;
wait_until('a place is free', sub { my $raw = sse($relay, 'u3'); $raw->disconnect; $raw->{status} == 200 });
pass('who leaves makes room');
is($relay->stop, 0, 'SIGTERM ends the relay in good order');

# The rate of new connections.
$relay = with('gate.connect_rate' => 5);
my @got   = map { upgrade($relay) } 1 .. 12;
my @taken = grep { $_->{response}{status} == 101 } @got;
my ($refused) = grep { $_->{response}{status} == 503 } @got;
cmp_ok(scalar(@taken), '>=', 5, 'as many as the rate are taken at once');
ok($refused, 'the others are refused');
is($refused->{response}{headers}{'retry-after'}, 1, 'and told to come back soon');
is(poll($relay, 'u1')->{status}, 204, 'polls are not counted');
wait_until('the next second takes more', sub { status($relay) == 101 });
pass('later there is room again');
is($relay->stop, 0, 'SIGTERM ends the relay in good order');

# Connections of an address; X-Forwarded-For counts only from proxies that are trusted.
$relay = with('gate.max_per_address' => 2);
my @mine = (Clairon::Test::RawSocket->user($relay, 'u1'), sse($relay, 'u2'));
is(status($relay), 429, 'one address too many');
is(status($relay, 'X-Forwarded-For' => '192.0.2.1'), 429, 'whatever it says of itself');
$mine[0]->disconnect;
wait_until('a place is free', sub { status($relay) == 101 });
pass('who leaves makes room');
is($relay->stop, 0, 'SIGTERM ends the relay in good order');
$relay = with('gate.max_per_address' => 1, 'gate.trusted_proxies' => '127.0.0.0/8, 198.51.100.7');
@mine = (upgrade($relay, 'X-Forwarded-For' => '192.0.2.1'));
is(status($relay, 'X-Forwarded-For' => '192.0.2.1'), 429, 'behind a trusted proxy its clients are counted');
is(status($relay, 'X-Forwarded-For' => '203.0.113.9, 192.0.2.1'), 429, 'by the last it vouches for');
is(status($relay, 'X-Forwarded-For' => '203.0.113.9, ' x 300 . '192.0.2.1'), 429, 'however much it says of itself');
is(status($relay, 'X-Forwarded-For' => '192.0.2.1, 198.51.100.7'), 429, 'through another trusted one');
push @mine, upgrade($relay, 'X-Forwarded-For' => '192.0.2.1, 192.0.2.2');
is($mine[-1]{response}{status}, 101, 'another client may');
push @mine, upgrade($relay, 'X-Forwarded-For' => 'nonsense');
is($mine[-1]{response}{status}, 101, 'who is not told counts as the proxy');
is(status($relay), 429, 'as this one');
push @mine, upgrade($relay, 'X-Forwarded-For' => '2001:db8:1:2::1');
is(status($relay, 'X-Forwarded-For' => '2001:db8:1:2:a:b:c:d'), 429, 'who has an address of IPv6 has 2^64: they count as one');
is(status($relay, 'X-Forwarded-For' => '2001:db8:1:3::1'), 101, 'those of another network do not');
is($relay->stop, 0, 'SIGTERM ends the relay in good order');

# Connections of a user.
$relay = with('gate.max_per_user' => 1);
my $one = Clairon::Test::RawSocket->user($relay, 'u1');
my $two = upgrade($relay);
$two->send_json({ t => 'connect', r => 7, token => token(sub => 'u1') });
my $err = $two->next_message;
is_deeply([ @{$err}{qw(t code r retry)} ], [ 'err', 111, 7, JSON::true ], 'a user\'s connection too many: err 111');
cmp_ok($err->{after}, '>', 0, 'with a time to wait');
is($two->read_to_end->{code}, 4103, 'and the end');
is(sse($relay, 'u1')->{status}, 429, 'SSE: 429');
is(poll($relay, 'u1')->{status}, 429, 'a poll: 429');
is(poll($relay, 'u2')->{status}, 204, 'another user may');
$one->disconnect;
wait_until('a place is free', sub { poll($relay, 'u1')->{status} == 204 });
pass('who leaves makes room');
is($relay->stop, 0, 'SIGTERM ends the relay in good order');

# Lines of a connection.
$relay = with('gate.message_rate' => 20);
my $fast = Clairon::Test::RawSocket->user($relay, 'u1');
$fast->text(join "\n", ('{"t":"ping","r":1}') x 60);
my @said = map { $fast->next_message } 1 .. 60;
my @over = grep { $_->{t} eq 'err' } @said;
cmp_ok(scalar(@over), '>=', 30, 'lines beyond the rate are not done');
is_deeply([ @{ $over[0] }{qw(code r retry)} ], [ 111, 1, JSON::true ], 'err 111 says so');
cmp_ok($over[0]{after}, '>', 0, 'with a time to wait');
wait_until('it may again', sub { $fast->send_json({ t => 'ping' }); $fast->next_message->{t} eq 'pong' });
pass('and the connection stays');
my $none = '00000000-0000-0000-0000-000000000000';
$fast->send_json({ t => 'ack', ids => [$none] }) for 1 .. 3000;
$fast->text(join "\n", (qq({"t":"ack","ids":["$none"],"r":2})) x 60); # while it is held back some become free
@said = $fast->wait_message('err');
push @said, $fast->next_message until ($said[-1]{r} // 0) == 2;
cmp_ok(scalar(@said), '<', 100, 'thousands of acks too many are told of a few times, one that asks each time');
$fast->text(join "\n", ('{"t":"x"}') x 6000) for 1 .. 2;
my $overload = $fast->read_to_end;
is($overload->{code}, 4103, 'who asks for more than it reads is sent away');
is($overload->{messages}[-1]{t}, 'bye', 'with a bye');
is($relay->stop, 0, 'SIGTERM ends the relay in good order');

# The kill switch.
$relay = with('gate.drain' => '400ms');
$ws  = Clairon::Test::RawSocket->user($relay, 'u1');
$sse = sse($relay, 'u1');
$sse->wait_message('connected');
is(post($relay, '/v1/push', '{"on":false}'), 403, 'a token without the claim may not turn push off');
is(post($relay, '/v1/push', '{"on":0}', admin => JSON::true), 400, 'nor is nonsense taken');
is(status($relay), 101, 'push is on');
is(post($relay, '/v1/push', '{"on":false}', admin => JSON::true), 204, 'an admin turns push off');
my $end = $ws->read_to_end;
is($end->{code}, 4103, 'a WebSocket is sent away');
ok(defined $end->{messages}[-1]{in}, 'and told when to come back');
my ($bye) = grep { $_->{t} eq 'bye' } $sse->wait_end;
is($bye->{code}, 4103, 'SSE too');
my $off = upgrade($relay)->{response};
is($off->{status}, 503, 'new ones are refused');
like($off->{body}, qr{/v1/poll}, 'and told what is left');
ok($off->{headers}{'retry-after'}, 'and when to ask again');
is(sse($relay, 'u1')->{status}, 503, 'SSE too');
is(poll($relay, 'u1')->{status}, 204, 'polls go on');
is($relay->metric('clairon_gate_push_off'), 1, 'the metrics say so');
is(($relay->get('/readyz'))[0], 200, 'the relay is ready all the same');
is(post($relay, '/v1/push', '{"on":true}', admin => JSON::true), 204, 'and turns it on again');
is(status($relay), 101, 'push is on');
$ws = Clairon::Test::RawSocket->user($relay, 'u1');
kill USR1 => $relay->pid;
is($ws->read_to_end->{code}, 4103, 'SIGUSR1 turns it off too');
is(status($relay), 503, 'push is off');
kill USR1 => $relay->pid;
is(status($relay), 503, 'which may be said twice');
kill USR2 => $relay->pid;
wait_until('push is on', sub { status($relay) == 101 });
pass('SIGUSR2 turns it on');
is($relay->stop, 0, 'SIGTERM ends the relay in good order');

# Who waits for the store meanwhile.
my $proxy = Clairon::Test::proxy($store->{socket});
$relay = with('store.url' => $proxy->url('redis'));
my $asked = Clairon::Test::RawSocket->new($relay)->request(POST => '/v1/ticket', Authorization => 'Bearer ' . token(sub => 't1'), ':body' => '')->{json};
$proxy->freeze;
my $late = Clairon::Test::RawSocket->new($relay);
$late->write("GET /v1/sse?ticket=$asked->{ticket} HTTP/1.1\r\nHost: x\r\n\r\n");
wait_until('its ticket is asked for', sub { $relay->metric('clairon_gate_streams') == 1 });
is(post($relay, '/v1/push', '{"on":false}', admin => JSON::true), 204, 'push is turned off');
$proxy->thaw;
1 until $late->{bytes} =~ /\r\n\r\n/ || !$late->more;
like($late->{bytes}, qr{^HTTP/1\.1 503 }, 'whose ticket is good then gets no stream');
is($relay->stop, 0, 'SIGTERM ends the relay in good order');

# Several workers: one is asked, all obey.
$relay = with('gate.workers' => 3, 'gate.drain' => '400ms');
my @all = map { Clairon::Test::RawSocket->user($relay, "w$_") } 1 .. 12;
is(post($relay, '/v1/push', '{"on":false}', admin => JSON::true), 204, 'one worker is asked to turn push off');
is_deeply([ map { $_->read_to_end->{code} } @all ], [ (4103) x 12 ], 'the clients of all are sent away');
is_deeply({ map { status($relay) => 1 } 1 .. 12 }, { 503 => 1 }, 'all refuse');
my @before = children($relay->pid);
kill KILL => @before;
wait_until('others take their places', sub { my %old = map { $_ => 1 } @before; 3 == grep { !$old{$_} } children($relay->pid) });
wait_until('they serve', sub { ($relay->get('/readyz'))[0] == 200 });
is_deeply({ map { status($relay) => 1 } 1 .. 12 }, { 503 => 1 }, 'also those that were started later');
is(post($relay, '/v1/push', '{"on":true}', admin => JSON::true), 204, 'and on again');
wait_until('all take', sub { 12 == grep { status($relay) == 101 } 1 .. 12 });
pass('all take');
is($relay->stop, 0, 'SIGTERM ends the relay in good order');

# Both signals, back to back: off wins, and all agree. Some find both waiting, as those who were busy.
sub pending { my ($pid) = @_; open my $file, '<', "/proc/$pid/status" or return 1; return hex((join('', <$file>) =~ /^ShdPnd:\s+(\w+)/m)[0]) }
sub all_say { my ($status) = @_; return wait_until("all say $status", sub { 12 == grep { status($relay) == $status } 1 .. 12 }, 10) }

sub while_stopped
{
    my ($act, @pids) = @_;
    kill STOP => @pids;
    $act->();
    for (@pids)
    {
        kill CONT => $_;
        wait_until('it took the signals', sub { !pending($relay->pid) }) if @pids > 1;
    }
    return;
}

for my $workers (1, 2)
{
    $relay = with('gate.workers' => $workers, 'gate.drain' => '0s');
    my $both = sub { kill USR2 => $relay->pid; kill USR1 => $relay->pid };
    for my $round (1 .. 20)
    {
        my @stopped = $round % 2 ? () : ($relay->pid, $round % 4 ? () : children($relay->pid));
        while_stopped($both, @stopped);
        all_say(503);
        kill USR2 => $relay->pid;
        all_say(101);
    }
    pass("$workers workers: on and off at once turn push off");
    is($relay->stop, 0, 'SIGTERM ends the relay in good order');
}

# Who asks over HTTP is answered before the guardian knows: what was asked last counts.
$relay = with('gate.workers' => 2, 'gate.drain' => '0s');
for ([ 'true', 'false', 503 ], [ 'false', 'true', 101 ])
{
    my ($first, $last, $status) = @$_;
    while_stopped(sub { is(post($relay, '/v1/push', qq({"on":$_}), admin => JSON::true), 204, "asked for $_") for $first, $last }, $relay->pid);
    all_say($status);
}
is($relay->stop, 0, 'SIGTERM ends the relay in good order');

# No descriptor is left: who has not asked yet gives way to who does, others wait; it is said once.
$relay = with('gate.connect_timeout' => '5m');
my @open = glob '/proc/' . $relay->pid . '/fd/*';
system('prlimit', '--pid', $relay->pid, '--nofile=' . (@open + 4) . ':') == 0 or die 'could not lower the limit';
my @mute = map { Clairon::Test::RawSocket->new($relay) } 1 .. 12;
$relay->wait_for_log(qr/no descriptor for a new connection .*LimitNOFILE/);
is(status($relay), 101, 'who asks is served while many say nothing');
my @stay = map { upgrade($relay) } 1 .. 4;
push @mute, map { Clairon::Test::RawSocket->new($relay) } 1 .. 12;
sub turns { open my $file, '<', '/proc/' . $relay->pid . '/status' or die "no relay: $!"; my ($n) = join('', <$file>) =~ /^voluntary_ctxt_switches:\s+(\d+)/m; return $n }
my $turns = turns();
wait_until('its loop turned some more', sub { turns() > $turns + 30 });
$stay[0]->disconnect;
is(status($relay), 101, 'once there is one, those who come are served');
is(() = $relay->log_text =~ /no descriptor/g, 1, 'and it was said once');
$_->disconnect for @mute, @stay[ 1 .. 3 ];
is($relay->stop, 0, 'SIGTERM ends the relay in good order');

# Nor do they take the last ones, which the store is reached by.
my ($hard) = qx{prlimit --nofile --output HARD --noheadings} =~ /(\d+)/;
$relay = with('gate.connect_timeout' => '5m', 'gate.max_connections' => 100);
my $wrapper = Clairon::Test::scratch() . '/few';
$relay->write_file($wrapper, "#!/bin/sh\nexec prlimit --nofile=200:200 '$relay->{program}' \"\$@\"\n");
chmod 0755, $wrapper;
sub limit { open my $file, '<', '/proc/' . $relay->pid . '/limits' or die "no relay: $!"; return join('', <$file>) =~ /^Max open files\s+(\d+)/m ? $1 : 0 }
SKIP: {
    skip 'no more descriptors are allowed', 1 unless ($hard // 'unlimited') eq 'unlimited' || $hard > 10_000;
    cmp_ok(limit(), '<', 10_000, 'it allows itself no more descriptors than it may need');
}
$relay->stop;
$relay->{program} = $wrapper;
$relay->start;
$relay->wait_ready;
is(limit(), 200, 'all that there are where those are few');
my @many = map { Clairon::Test::RawSocket->new($relay) } 1 .. 250;
$store->stop;
wait_until('the relay sees it', sub { ($relay->get('/readyz'))[0] == 503 });
$store->start;
$relay->wait_ready;
pass('the store is reached again while hundreds say nothing');
$_->disconnect for @many;
is($relay->stop, 0, 'SIGTERM ends the relay in good order');

done_testing();
