# Does a relay under churn keep its memory and descriptors, and lose nothing? SECONDS says for how long.
#
# Two relays; one is restarted again and again, the other is watched. Users come and go, are killed in
# the middle, ack some at once and some late; each must have been shown each of its rows in the end.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use List::Util qw(max sum);
use Test::More;
use Time::HiRes qw(time);

my $seconds = $ENV{SECONDS} || 600;
my $users   = 12;
my $rate    = 40;                 # rows a turn
my $settled = 0.3;                # of the time: until then caches and pools fill

local $SIG{__DIE__} = sub { diag($_[0]) unless $^S };    # STDERR is a file here
my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text, body text);
    SELECT clairon.watch('t', 'USER', 'owner', ack_required => true, retry_limit => 1000)});
my $store  = Clairon::Test::store();
my %common = (conf => { 'gate.drain' => '300ms', 'store.retention' => '2m', 'relay.log_level' => 'warn',
        'delivery.ack_timeout' => '5s', 'delivery.backoff_cap' => '5s' });
my $steady = Clairon::Test::relay($pg, $store, %common);
my $other  = Clairon::Test::relay($pg, $store, %common);

my (%client, %position, %shown, %samples);
my ($row, $restarts, $connections, $kills) = (0, 0, 0, 0);

# What a process holds now: kB resident, open descriptors.
sub held
{
    my ($pid) = @_;
    open my $status, '<', "/proc/$pid/status" or die "no process $pid\n";
    my ($kb) = join('', <$status>) =~ /^VmRSS:\s+(\d+)/m;
    return ($kb, scalar(() = glob "/proc/$pid/fd/*"));
}

# Takes note of what a client was shown, and acks it.
sub take
{
    my ($user) = @_;
    my $client = $client{$user} or return;
    my @lines  = splice @{ $client->{messages} };
    my @notifications  = map { $_->{n} } grep { $_->{t} eq 'msg' } @lines;
    die "user $user was told of a gap\n" if grep { $_->{t} eq 'gap' } @lines;
    $shown{$user}{ $_->{payload}{after}{id} }++ for @notifications;
    ($position{$user}) = (map({ $_->{pos} // () } @lines))[-1] // $position{$user};
    delete $client{$user} and return if $client->{closed};
    $client->ack(map { $_->{metadata}{id} } @notifications) if @notifications;
    return;
}

sub come
{
    my ($user) = @_;
    my $relay = $user % 3 && $other->is_alive ? $other : $steady;
    $client{$user} = eval { $relay->client("u$user",
        ($position{$user} ? (pos => $position{$user}) : ())) } // return;
    $connections++;
    return;
}

sub leave
{
    my ($user) = @_;
    take($user);
    my $client = delete $client{$user} or return;
    if (rand() < 0.5) { $kills++; Mojo::IOLoop->remove($client->{tx}->connection); }
    else              { eval { $client->close } }
    return;
}

# Strangers who come, see nothing and go: connections that leave nothing behind.
sub passers_by
{
    my @all = map { eval { $steady->client("stranger$_") } // () } 1 .. 10;
    $connections += @all;
    eval { $_->close } for @all;
    return;
}

Mojo::IOLoop->recurring(0.005 => sub { });    # a turn of the loop ends without an event too
my $start = time();
my $next_restart = $start + 5;
while ((my $now = time() - $start) < $seconds)
{
    $pg->safe_psql('postgres', sprintf q{INSERT INTO t SELECT i, 'u' || i %% %d, repeat('x', 100 + i %% 900) FROM generate_series(%d, %d) i},
        $users, $row + 1, $row + $rate);
    $row += $rate;
    for my $user (0 .. $users - 1)
    {
        if    (!$client{$user})  { come($user) if rand() < 0.5 }
        elsif (rand() < 0.1)     { leave($user) }
        else                     { take($user) }
    }
    passers_by();
    Mojo::IOLoop->one_tick for 1 .. 20;
    if (time() > $next_restart)
    {
        $other->stop;
        $other->start;
        $restarts++;
        $next_restart = time() + 5;
    }
    my ($kb, $fds) = held($steady->pid);
    my $part = $now < $settled * $seconds ? 'warm' : $now < (1 + $settled) / 2 * $seconds ? 'early' : 'late';
    push @{ $samples{$part} }, [ $kb, $fds ];
}

# All come back and get the rest.
for my $user (0 .. $users - 1)
{
    wait_until("user $user has all", sub {
        come($user) if !$client{$user};
        take($user);
        Mojo::IOLoop->one_tick for 1 .. 5;
        keys %{ $shown{$user} // {} } >= grep { $_ % $users == $user } 1 .. $row;
    }, 120);
}
my $lost = sum(map { my $user = $_; scalar grep { $_ % $users == $user && !$shown{$user}{$_} } 1 .. $row } 0 .. $users - 1);
is($lost, 0, "no row of $row was lost, over $restarts restarts, $connections connections, $kills cut off");
wait_until('all are acked', sub { take($_) for 0 .. $users - 1; Mojo::IOLoop->one_tick for 1 .. 5; $store->pending == 0 }, 120);
pass('and each was acknowledged');
is($store->execute('XLEN', 'clairon:errors') // 0, 0, 'nothing was given up');

sub mean { my ($part, $what) = @_; return sum(map { $_->[$what] } @{ $samples{$part} }) / @{ $samples{$part} } }
my ($early, $late) = (mean('early', 0), mean('late', 0));
note(sprintf 'memory: %d kB at first, then %d kB, then %d kB; descriptors: %.1f, then %.1f, %d at most',
    $samples{warm}[0][0], $early, $late, mean('early', 1), mean('late', 1), max(map { $_->[1] } @{ $samples{late} }));
cmp_ok($late, '<', $early * 1.05 + 1024, 'its memory does not grow');
cmp_ok(mean('late', 1), '<', mean('early', 1) + 5, 'nor the number of its descriptors');
leave($_) for 0 .. $users - 1;
Mojo::IOLoop->one_tick for 1 .. 20;
wait_until('all connections are closed', sub { ($steady->metric('clairon_gate_connections') // 1) == 0 });
pass('and no connection is left');

done_testing();
