# Tests that excess clients are rejected early with a reason, and that polling works while real-time delivery is off.
use strict;
use warnings;

use Clairon::Test qw(wait_until token children);
use Clairon::Test::EventStream;
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;
use Time::HiRes ();

my $store = Clairon::Test::store();

sub relay_with { return Clairon::Test::relay(undef, $store, roles => 'gate', conf => {@_}) }

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

# max_connections also limits SSE and polls.
my $relay = relay_with('gate.max_connections' => 2);
my $ws    = Clairon::Test::RawSocket->user($relay, 'u1');
my $sse   = sse($relay, 'u2');
$sse->wait_message('connected');
my $full = upgrade($relay)->{response};
is($full->{status}, 503, 'a WebSocket beyond max_connections is rejected before the upgrade');
like($full->{headers}{'retry-after'}, qr/^[1-9]\d*$/, 'a rejected WebSocket receives Retry-After');
is(sse($relay, 'u3')->{status}, 503, 'SSE beyond max_connections is rejected');
is(poll($relay, 'u3')->{status}, 503, 'a poll beyond max_connections is rejected');
is(($relay->get('/healthz'))[0], 200, 'health requests are not limited');
$ws->disconnect;
wait_until('a connection slot is free', sub { my $raw = sse($relay, 'u3'); $raw->disconnect; $raw->{status} == 200 });
pass('a closed connection frees its slot');
is($relay->stop, 0, 'the relay with max_connections exits with status 0 on SIGTERM');

# connect_rate limits the rate of new connections.
$relay = relay_with('gate.connect_rate' => 5);
my @burst = map { Clairon::Test::RawSocket->new($relay) } 1 .. 40;
my $begin = Time::HiRes::time();
$_->begin(GET => '/v1/ws', Upgrade => 'websocket', Connection => 'Upgrade', 'Sec-WebSocket-Key' => 'dGhlIHNhbXBsZSBub25jZQ==', 'Sec-WebSocket-Version' => 13) for @burst;
my @got = map { $_->read_response } @burst;
my @accepted = grep { $_->{status} == 101 } @got;
my ($rejected) = grep { $_->{status} == 503 } @got;
cmp_ok(scalar(@accepted), '>=', 5, 'connections up to the rate are accepted immediately');
cmp_ok(scalar(@accepted), '<=', 5 + 5 * (Time::HiRes::time() - $begin), 'no more connections are accepted than the rate allows');
ok($rejected, 'connections beyond the rate are rejected');
is($rejected->{headers}{'retry-after'}, 1, 'the rejection has a short Retry-After');
is(poll($relay, 'u1')->{status}, 204, 'polls are not limited by connect_rate');
wait_until('more connections are accepted in the next second', sub { status($relay) == 101 });
pass('connections are accepted again');
is($relay->stop, 0, 'the relay with connect_rate exits with status 0 on SIGTERM');

# max_per_address limits connections per address; X-Forwarded-For is used only if a trusted proxy sends it.
$relay = relay_with('gate.max_per_address' => 2);
my @mine = (Clairon::Test::RawSocket->user($relay, 'u1'), sse($relay, 'u2'));
is(status($relay), 429, 'connections beyond max_per_address are rejected');
is(status($relay, 'X-Forwarded-For' => '192.0.2.1'), 429, 'X-Forwarded-For of an untrusted client is ignored');
$mine[0]->disconnect;
wait_until('a connection slot is free', sub { status($relay) == 101 });
pass('a closed connection frees the slot of its address');
is($relay->stop, 0, 'the relay with max_per_address exits with status 0 on SIGTERM');
$relay = relay_with('gate.max_per_address' => 1, 'gate.trusted_proxies' => '127.0.0.0/8, 198.51.100.7');
@mine = (upgrade($relay, 'X-Forwarded-For' => '192.0.2.1'));
is(status($relay, 'X-Forwarded-For' => '192.0.2.1'), 429, 'behind a trusted proxy, clients are counted by X-Forwarded-For');
is(status($relay, 'X-Forwarded-For' => '203.0.113.9, 192.0.2.1'), 429, 'the last address in X-Forwarded-For is counted');
is(status($relay, 'X-Forwarded-For' => '203.0.113.9, ' x 300 . '192.0.2.1'), 429, 'a very long X-Forwarded-For is counted by its last address');
is(status($relay, 'X-Forwarded-For' => '192.0.2.1, 198.51.100.7'), 429, 'addresses of a second trusted proxy are skipped');
push @mine, upgrade($relay, 'X-Forwarded-For' => '192.0.2.1, 192.0.2.2');
is($mine[-1]{response}{status}, 101, 'another client is accepted');
push @mine, upgrade($relay, 'X-Forwarded-For' => 'nonsense');
is($mine[-1]{response}{status}, 101, 'a request without X-Forwarded-For is counted for the proxy');
is(status($relay), 429, 'a proxy that sends no X-Forwarded-For reaches the limit');
push @mine, upgrade($relay, 'X-Forwarded-For' => '2001:db8:1:2::1');
is(status($relay, 'X-Forwarded-For' => '2001:db8:1:2:a:b:c:d'), 429, 'IPv6 addresses of one /64 network count as one');
is(status($relay, 'X-Forwarded-For' => '2001:db8:1:3::1'), 101, 'another /64 network counts separately');
is($relay->stop, 0, 'the relay with trusted_proxies exits with status 0 on SIGTERM');

# max_per_user limits connections per user.
$relay = relay_with('gate.max_per_user' => 1);
my $one = Clairon::Test::RawSocket->user($relay, 'u1');
my $two = upgrade($relay);
$two->send_json({ t => 'connect', r => 7, token => token(sub => 'u1') });
my $err = $two->next_message;
is_deeply([ @{$err}{qw(t code r retry)} ], [ 'err', 111, 7, JSON::true ], 'a connection beyond the per-user limit receives err 111');
cmp_ok($err->{after}, '>', 0, 'err 111 has a retry delay');
is($two->read_to_end->{code}, 4103, 'a connection beyond the per-user limit is closed');
is(sse($relay, 'u1')->{status}, 429, 'SSE beyond the per-user limit is rejected with 429');
is(poll($relay, 'u1')->{status}, 429, 'a poll beyond the per-user limit is rejected with 429');
is(poll($relay, 'u2')->{status}, 204, 'another user is accepted');
$one->disconnect;
wait_until('a connection slot is free', sub { poll($relay, 'u1')->{status} == 204 });
pass('a closed connection frees the slot of its user');
is($relay->stop, 0, 'the relay with max_per_user exits with status 0 on SIGTERM');

# message_rate limits frames per connection.
$relay = relay_with('gate.message_rate' => 20);
my $fast = Clairon::Test::RawSocket->user($relay, 'u1');
$fast->text(join "\n", ('{"t":"ping","r":1}') x 60);
my @replies = map { $fast->next_message } 1 .. 60;
my @over = grep { $_->{t} eq 'err' } @replies;
cmp_ok(scalar(@over), '>=', 30, 'frames beyond the rate are rejected');
is_deeply([ @{ $over[0] }{qw(code r retry)} ], [ 111, 1, JSON::true ],
    'the rejection is err 111, which allows a retry');
cmp_ok($over[0]{after}, '>', 0, 'the rejection has a retry delay');
wait_until('the rate allows frames again', sub { $fast->send_json({ t => 'ping' }); $fast->next_message->{t} eq 'pong' });
pass('the connection stays open');
my $none = '00000000-0000-0000-0000-000000000000';
$fast->send_json({ t => 'ack', ids => [$none] }) for 1 .. 3000;
$fast->text(join "\n", (qq({"t":"ack","ids":["$none"],"r":2})) x 60); # some frames are accepted while the relay delays reading
@replies = $fast->wait_message('err');
push @replies, $fast->next_message until ($replies[-1]{r} // 0) == 2;
cmp_ok(scalar(@replies), '<', 100, 'the relay reports thousands of excess acks in only a few frames');
$fast->text(join "\n", ('{"t":"x"}') x 6000) for 1 .. 2;
my $overload = $fast->read_to_end;
is($overload->{code}, 4103, 'a client that does not read its replies is closed');
is($overload->{messages}[-1]{t}, 'bye', 'the client receives a bye before the close');
is($relay->stop, 0, 'the relay with message_rate exits with status 0 on SIGTERM');

# An admin can turn real-time delivery off and on.
$relay = relay_with('gate.drain' => '400ms');
$ws  = Clairon::Test::RawSocket->user($relay, 'u1');
$sse = sse($relay, 'u1');
$sse->wait_message('connected');
is(post($relay, '/v1/realtime', '{"on":false}'), 403, 'a token without the admin claim cannot turn real-time delivery off');
is(post($relay, '/v1/realtime', '{"on":0}', admin => JSON::true), 400, 'an invalid body is rejected');
is(status($relay), 101, 'real-time delivery stays on after rejected requests');
is(post($relay, '/v1/realtime', '{"on":false}', admin => JSON::true), 204, 'an admin can turn real-time delivery off');
my $end = $ws->read_to_end;
is($end->{code}, 4103, 'turning real-time delivery off closes WebSockets');
ok(defined $end->{messages}[-1]{in}, 'the bye has a reconnect delay');
my ($bye) = grep { $_->{t} eq 'bye' } $sse->wait_end;
is($bye->{code}, 4103, 'turning real-time delivery off ends SSE with the same code');
my $off = upgrade($relay)->{response};
is($off->{status}, 503, 'new WebSockets are rejected while real-time delivery is off');
like($off->{body}, qr{/v1/poll}, 'the rejection contains /v1/poll');
ok($off->{headers}{'retry-after'}, 'the rejection has Retry-After');
is(sse($relay, 'u1')->{status}, 503, 'new SSE streams are rejected');
is(poll($relay, 'u1')->{status}, 204, 'polls are still accepted');
is($relay->metric('clairon_gate_realtime_off'), 1, 'the metric clairon_gate_realtime_off is 1');
is(($relay->get('/readyz'))[0], 200, 'the relay stays ready');
is(post($relay, '/v1/realtime', '{"on":true}', admin => JSON::true), 204, 'an admin can turn real-time delivery on');
is(status($relay), 101, 'connections are accepted while real-time delivery is on');
$ws = Clairon::Test::RawSocket->user($relay, 'u1');
kill USR1 => $relay->pid;
is($ws->read_to_end->{code}, 4103, 'SIGUSR1 turns real-time delivery off');
is(status($relay), 503, 'connections are rejected after SIGUSR1');
kill USR1 => $relay->pid;
is(status($relay), 503, 'a second SIGUSR1 has no effect');
kill USR2 => $relay->pid;
wait_until('real-time delivery is on', sub { status($relay) == 101 });
pass('SIGUSR2 turns real-time delivery on');
is($relay->stop, 0, 'the relay with the switch of real-time delivery exits with status 0 on SIGTERM');
is_deeply([ $relay->log_text(0) =~ /^component=audit .* actor="(\w+)" act="realtime" object="(\w+)"$/mg ],
    [ map { (@$_) } [qw(a1 off)], [qw(a1 on)], [qw(signal off)], [qw(signal off)], [qw(signal on)] ], 'each switch is audited once, with its actor');

# Real-time delivery is turned off while a client's request waits for the store.
my $proxy = Clairon::Test::proxy($store->{socket});
$relay = relay_with('store.url' => $proxy->url('redis'));
my $ticket_response = Clairon::Test::RawSocket->new($relay)->request(POST => '/v1/ticket', Authorization => 'Bearer ' . token(sub => 't1'), ':body' => '')->{json};
$proxy->freeze;
my $late = Clairon::Test::RawSocket->new($relay);
$late->write("GET /v1/sse?ticket=$ticket_response->{ticket} HTTP/1.1\r\nHost: x\r\n\r\n");
wait_until('the relay has requested the ticket', sub { $relay->metric('clairon_gate_streams') == 1 });
is(post($relay, '/v1/realtime', '{"on":false}', admin => JSON::true), 204, 'real-time delivery is turned off');
$proxy->thaw;
1 until $late->{bytes} =~ /\r\n\r\n/ || !$late->more;
like($late->{bytes}, qr{^HTTP/1\.1 503 }, 'a valid ticket opens no stream while real-time delivery is off');
is($relay->stop, 0, 'SIGTERM ends the relay behind a proxy of the store with status 0');

# With several workers, a request to one worker applies to all workers.
sub wait_all_return { my ($status) = @_; return wait_until("all workers return $status", sub { 12 == grep { status($relay) == $status } 1 .. 12 }) }

$relay = relay_with('gate.workers' => 3, 'gate.drain' => '400ms');
my @all = map { Clairon::Test::RawSocket->user($relay, "w$_") } 1 .. 12;
is(post($relay, '/v1/realtime', '{"on":false}', admin => JSON::true), 204, 'one worker receives the request to turn real-time delivery off');
is_deeply([ map { $_->read_to_end->{code} } @all ], [ (4103) x 12 ], 'the clients of all workers are closed');
wait_all_return(503); # a worker without clients may receive the request later
pass('all workers reject connections');
my @before = children($relay->pid);
kill KILL => @before;
wait_until('new workers have started', sub { my %old = map { $_ => 1 } @before; 3 == grep { !$old{$_} } children($relay->pid) });
wait_until('the new workers are ready', sub { ($relay->get('/readyz'))[0] == 200 });
is_deeply({ map { status($relay) => 1 } 1 .. 12 }, { 503 => 1 }, 'new workers reject connections');
is(post($relay, '/v1/realtime', '{"on":true}', admin => JSON::true), 204, 'a request turns real-time delivery on again');
wait_all_return(101);
pass('all workers accept connections');
is($relay->stop, 0, 'the relay with three workers exits with status 0 on SIGTERM');

# Both signals arrive in quick succession: real-time delivery is off afterwards, and all workers agree. In some rounds,
# stopped processes find both signals pending.
sub pending { my ($pid) = @_; open my $file, '<', "/proc/$pid/status" or return 1; return hex((join('', <$file>) =~ /^ShdPnd:\s+(\w+)/m)[0]) }

sub while_stopped
{
    my ($act, @pids) = @_;
    kill STOP => @pids;
    $act->();
    for (@pids)
    {
        kill CONT => $_;
        wait_until('the supervisor has received the signals', sub { !pending($relay->pid) }) if @pids > 1;
    }
    return;
}

for my $workers (1, 2)
{
    $relay = relay_with('gate.workers' => $workers, 'gate.drain' => '0s');
    my $both = sub { kill USR2 => $relay->pid; kill USR1 => $relay->pid };
    for my $round (1 .. 20)
    {
        my @stopped = $round % 2 ? () : ($relay->pid, $round % 4 ? () : children($relay->pid));
        while_stopped($both, @stopped);
        wait_all_return(503);
        kill USR2 => $relay->pid;
        wait_all_return(101);
    }
    pass("$workers workers: real-time delivery is off after simultaneous signals to turn it on and off");
    is($relay->stop, 0, "the relay with $workers workers exits with status 0 on SIGTERM");
}

# The relay responds before its supervisor has processed the request. The last request takes effect.
$relay = relay_with('gate.workers' => 2, 'gate.drain' => '0s');
for ([ 'true', 'false', 503 ], [ 'false', 'true', 101 ])
{
    my ($first, $last, $status) = @$_;
    while_stopped(sub { is(post($relay, '/v1/realtime', qq({"on":$_}), admin => JSON::true), 204, "the request {\"on\":$_} is accepted") for $first, $last }, $relay->pid);
    wait_all_return($status);
}
is($relay->stop, 0, 'the relay with concurrent requests exits with status 0 on SIGTERM');

# When the relay is out of file descriptors, it closes idle connections, and new connections wait. The event is logged
# at a limited rate.
$relay = relay_with('gate.connect_timeout' => '5m');
my @open = glob '/proc/' . $relay->pid . '/fd/*';
system('prlimit', '--pid', $relay->pid, '--nofile=' . (@open + 4) . ':') == 0 or die 'could not lower the limit';
my @idle = map { Clairon::Test::RawSocket->new($relay) } 1 .. 12;
$relay->wait_for_log(qr/out of file descriptors.*LimitNOFILE/);
is(status($relay), 101, 'a request is served although many connections are idle');
my @upgraded = map { upgrade($relay) } 1 .. 4;
push @idle, map { Clairon::Test::RawSocket->new($relay) } 1 .. 12;
sub loop_turns { open my $file, '<', '/proc/' . $relay->pid . '/status' or die "no relay: $!"; my ($n) = join('', <$file>) =~ /^voluntary_ctxt_switches:\s+(\d+)/m; return $n }
my $turns = loop_turns();
wait_until('more loop iterations have passed', sub { loop_turns() > $turns + 30 });
$upgraded[0]->disconnect;
is(status($relay), 101, 'new connections are served after a descriptor is free');
my $lines = () = $relay->log_text =~ /out of file descriptors/g;
cmp_ok($lines, '<', 5, 'the log has few lines about descriptors, although accept is retried in each of these iterations');
$_->disconnect for @idle, @upgraded[ 1 .. 3 ];
is($relay->stop, 0, 'SIGTERM ends the relay that was out of descriptors with status 0');

# Idle connections must not use the descriptors that the store connection needs.
my ($hard_limit) = qx{prlimit --nofile --output HARD --noheadings} =~ /(\d+)/;
$relay = relay_with('gate.connect_timeout' => '5m', 'gate.max_connections' => 100);
my $wrapper = Clairon::Test::scratch() . '/few';
$relay->write_file($wrapper, "#!/bin/sh\nexec prlimit --nofile=200:200 '$relay->{program}' \"\$@\"\n");
chmod 0755, $wrapper;
sub limit { open my $file, '<', '/proc/' . $relay->pid . '/limits' or die "no relay: $!"; return join('', <$file>) =~ /^Max open files\s+(\d+)/m ? $1 : 0 }
SKIP: {
    skip 'the limit of descriptors cannot be raised', 1 unless ($hard_limit // 'unlimited') eq 'unlimited' || $hard_limit > 10_000;
    cmp_ok(limit(), '<', 10_000, 'the relay limits its descriptors to the number that it needs');
}
$relay->stop;
$relay->{program} = $wrapper;
$relay->start;
$relay->wait_ready;
is(limit(), 200, 'a low limit of descriptors is unchanged');
my @many = map { Clairon::Test::RawSocket->new($relay) } 1 .. 250;
$store->stop;
wait_until('the relay has lost its store connection', sub { ($relay->get('/readyz'))[0] == 503 });
$store->start;
$relay->wait_ready;
pass('the relay reconnects to the store while hundreds of connections are idle');
$_->disconnect for @many;
is($relay->stop, 0, 'the relay with few descriptors exits with status 0 on SIGTERM');

done_testing();
