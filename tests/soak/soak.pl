# Tests that a relay under constant connection churn leaks no memory or descriptors, and loses no notification.
# SECONDS sets the duration.
#
# One of two relays is restarted repeatedly; the other relay is measured. Users connect, disconnect cleanly or abruptly,
# and acknowledge early or late. At the end, each user must have received all rows.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use List::Util qw(max sum);
use Test::More;
use Time::HiRes qw(time);

my $seconds = $ENV{SECONDS} || 600;
my $users   = 12;
my $rate    = 40;                 # rows per iteration
my $warm_up = 0.3;                # part of the run in which caches and pools fill

local $SIG{__DIE__} = sub { diag($_[0]) unless $^S };    # STDERR is a file
my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text, body text);
    SELECT clairon.watch('t', 'USER', 'owner', ack_required => true, retry_limit => 1000)});
my $store  = Clairon::Test::store();
my %common = (conf => { 'gate.drain' => '300ms', 'store.retention' => '2m', 'relay.log_level' => 'warn',
        'delivery.ack_timeout' => '5s', 'delivery.backoff_cap' => '5s' });
my $steady = Clairon::Test::relay($pg, $store, %common);
my $other  = Clairon::Test::relay($pg, $store, %common);

my (%client, %cursor, %received, %samples);
my ($row, $restarts, $connections, $kills) = (0, 0, 0, 0);

# Returns the resident memory in kB and the open descriptors of a process.
sub resources_of
{
    my ($pid) = @_;
    open my $status, '<', "/proc/$pid/status" or die "no process $pid\n";
    my ($kb) = join('', <$status>) =~ /^VmRSS:\s+(\d+)/m;
    return ($kb, scalar(() = glob "/proc/$pid/fd/*"));
}

# Records a client's notifications and acknowledges them.
sub process
{
    my ($user) = @_;
    my $client = $client{$user} or return;
    my @lines  = splice @{ $client->{messages} };
    my @notifications  = map { $_->{n} } grep { $_->{t} eq 'msg' } @lines;
    die "user $user received a gap\n" if grep { $_->{t} eq 'gap' } @lines;
    $received{$user}{ $_->{payload}{after}{id} }++ for @notifications;
    ($cursor{$user}) = (map({ $_->{pos} // () } @lines))[-1] // $cursor{$user};
    delete $client{$user} and return if $client->{closed};
    $client->ack(map { $_->{metadata}{id} } @notifications) if @notifications;
    return;
}

sub connect_user
{
    my ($user) = @_;
    my $relay = $user % 3 && $other->is_alive ? $other : $steady;
    $client{$user} = eval { $relay->client("u$user",
        ($cursor{$user} ? (pos => $cursor{$user}) : ())) } // return;
    $connections++;
    return;
}

sub disconnect_user
{
    my ($user) = @_;
    process($user);
    my $client = delete $client{$user} or return;
    if (rand() < 0.5) { $kills++; $client->abort; }
    else              { eval { $client->close } }
    return;
}

# Opens short-lived connections without notifications, which must not leak resources.
sub open_short_connections
{
    my @all = map { eval { $steady->client("stranger$_") } // () } 1 .. 10;
    $connections += @all;
    eval { $_->close } for @all;
    return;
}

my $start = time();
my $next_restart = $start + 5;
while ((my $now = time() - $start) < $seconds)
{
    $pg->safe_psql('postgres', sprintf q{INSERT INTO t SELECT i, 'u' || i %% %d, repeat('x', 100 + i %% 900) FROM generate_series(%d, %d) i},
        $users, $row + 1, $row + $rate);
    $row += $rate;
    for my $user (0 .. $users - 1)
    {
        if    (!$client{$user})  { connect_user($user) if rand() < 0.5 }
        elsif (rand() < 0.1)     { disconnect_user($user) }
        else                     { process($user) }
    }
    open_short_connections();
    Clairon::Test::Client::tick(0.005) for 1 .. 20;
    if (time() > $next_restart)
    {
        $other->stop;
        $other->start;
        $restarts++;
        $next_restart = time() + 5;
    }
    my ($kb, $fds) = resources_of($steady->pid);
    my $part = $now < $warm_up * $seconds ? 'warm' : $now < (1 + $warm_up) / 2 * $seconds ? 'early' : 'late';
    push @{ $samples{$part} }, [ $kb, $fds ];
}

# All users connect and receive the remaining rows.
for my $user (0 .. $users - 1)
{
    wait_until("user $user has all rows", sub {
        connect_user($user) if !$client{$user};
        process($user);
        Clairon::Test::Client::tick(0.005) for 1 .. 5;
        keys %{ $received{$user} // {} } >= grep { $_ % $users == $user } 1 .. $row;
    }, 120);
}
my $lost = sum(map { my $user = $_; scalar grep { $_ % $users == $user && !$received{$user}{$_} } 1 .. $row } 0 .. $users - 1);
is($lost, 0, "none of $row rows was lost, over $restarts restarts, $connections connections, $kills aborted");
wait_until('all notifications are acknowledged', sub { process($_) for 0 .. $users - 1; Clairon::Test::Client::tick(0.005) for 1 .. 5; $store->pending == 0 }, 120);
pass('each row was acknowledged');
is($store->error_count, 0, 'the error log is empty');

sub mean { my ($part, $what) = @_; return sum(map { $_->[$what] } @{ $samples{$part} }) / @{ $samples{$part} } }
my ($early, $late) = (mean('early', 0), mean('late', 0));
note(sprintf 'memory: %d kB at first, then %d kB, then %d kB; descriptors: %.1f, then %.1f, %d at most',
    $samples{warm}[0][0], $early, $late, mean('early', 1), mean('late', 1), max(map { $_->[1] } @{ $samples{late} }));
cmp_ok($late, '<', $early * 1.05 + 1024, 'memory does not grow');
cmp_ok(mean('late', 1), '<', mean('early', 1) + 5, 'the number of descriptors does not grow');
disconnect_user($_) for 0 .. $users - 1;
Clairon::Test::Client::tick(0.005) for 1 .. 20;
wait_until('all connections are closed', sub { ($steady->metric('clairon_gate_connections') // 1) == 0 });
pass('no connection remains');

done_testing();
