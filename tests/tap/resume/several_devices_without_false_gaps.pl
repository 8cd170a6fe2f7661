# Tests users with three devices, with windows of 64, 4 and 2, that connect, disconnect and acknowledge at random. Nothing
# is lost, so no device receives a gap, each return is resumed, each device receives all rows of its user, those that
# another device acknowledged too, and `acked` follows each of these rows.
#
# CLAIRON_TEST_SEED=n repeats a run, CLAIRON_RETURNS=n sets the number of returns.
use strict;
use warnings;

use Clairon::Test qw(wait_until amount);
use Test::More;

my $seed = $ENV{CLAIRON_TEST_SEED} // time;
srand $seed;
my $RETURNS = $ENV{CLAIRON_RETURNS} // amount(150, 10_000);
my $USERS   = 4;
note("seed $seed, $RETURNS returns");

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE own (id int PRIMARY KEY, owner text);
    CREATE TABLE team (id int PRIMARY KEY, team text);
    CREATE TABLE role (id int PRIMARY KEY, role text);
    CREATE TABLE plain (id int PRIMARY KEY, owner text);
    CREATE TABLE all_must (id int PRIMARY KEY);
    SELECT clairon.watch('own', 'USER', 'owner', ack_required => true);
    SELECT clairon.watch('team', 'TEAM', 'team', ack_required => true);
    SELECT clairon.watch('role', 'ROLE', 'role', ack_required => true);
    SELECT clairon.watch('plain', 'USER', 'owner');
    SELECT clairon.watch('all_must', 'ALL', ack_required => true)});
# The users have the role only by their token, so they receive its rows and do not have to acknowledge them.
$pg->safe_psql('postgres', "INSERT INTO clairon.member VALUES ('TEAM', 't$_', 'u$_')") for 1 .. $USERS;
$pg->safe_psql('postgres', q{INSERT INTO clairon.member VALUES ('ROLE', 'r', 'somebody')});
my $store  = Clairon::Test::store();
my %conf   = (conf => { 'delivery.ack_timeout' => '1h' });
my @relays = (Clairon::Test::relay($pg, $store, %conf), Clairon::Test::relay(undef, $store, roles => 'gate', %conf));
wait_until('all users are members', sub { $USERS == grep { $store->execute('SISMEMBER', $store->shared("members:TEAM:t$_"), "u$_") } 1 .. $USERS });

my $newest = 0;
my (%users_of, %must_ack); # by row
my ($returns, $resumed) = (0, 0);
my @faults;
my @devices = map { my $n = $_; map { { user => "u$n", win => $_, name => "u$n/$_", seen => {} } } 64, 4, 2 } 1 .. $USERS;

sub fault { my ($device, $what) = @_; push @faults, "$device->{name}: $what"; return }

# Processes the frames received since the last call.
sub process_new
{
    my ($device) = @_;
    my $client = $device->{client} or return;
    while ($device->{at} < @{ $client->{messages} })
    {
        my $line = $client->{messages}[ $device->{at}++ ];
        if ($line->{t} eq 'msg')
        {
            my $row = $line->{n}{payload}{after}{id};
            fault($device, "row $row comes twice on a connection") if $device->{on_connection}{$row}++;
            $device->{seen}{$row} = 1;
            $device->{pos} = $line->{pos};
            push @{ $device->{to_ack} }, [ $row, $line->{n}{metadata}{id} ] if $must_ack{$row};
        }
        elsif ($line->{t} eq 'gap') { fault($device, "a gap ($line->{why})"); $device->{pos} = $line->{to} }
        elsif ($line->{t} eq 'acked') { $device->{acked}{$_} = $device->{at} for @{ $line->{ids} } }
        elsif ($line->{t} eq 'connected') { $device->{pos} //= $line->{pos}; $device->{begins} //= $newest }
    }
    return;
}

sub connect_device
{
    my ($device) = @_;
    return if $device->{client};
    my $is_return = defined $device->{pos};
    my $client = $relays[ rand @relays ]->client($device->{user}, win => 0 + $device->{win}, groups => { ROLE => ['r'] },
        $is_return ? (pos => $device->{pos}) : ());
    @{$device}{qw(client at to_ack on_connection acked by_me)} = ($client, 0, [], {}, {}, {});
    $returns += $is_return;
    my $whole = $client->wait_for('connected')->{resumed};
    $resumed += $is_return && $whole;
    fault($device, 'not resumed') if $is_return && !$whole;
    return process_new($device);
}

sub disconnect_device
{
    my ($device) = @_;
    return if !$device->{client};
    process_new($device);
    delete($device->{client})->close;
    return;
}

sub ack_some
{
    my ($device, $share) = @_;
    return if !$device->{client};
    process_new($device);
    my @acks = grep { rand() < $share } @{ $device->{to_ack} };
    my %now = map { $_->[0] => 1 } @acks;
    $device->{to_ack} = [ grep { !$now{ $_->[0] } } @{ $device->{to_ack} } ];
    $device->{by_me}{ $_->[1] } = 1 for @acks;
    return @acks ? $device->{client}->ack(map { $_->[1] } @acks) : undef;
}

sub commit_some
{
    my $sql = '';
    my $n = 1 + int rand $USERS;
    for (0 .. rand 12)
    {
        my $table = (qw(own own own own team team role plain all_must))[ rand 9 ];
        $newest++;
        $must_ack{$newest} = $table ne 'plain' && $table ne 'role';
        $users_of{$newest} = $table eq 'all_must' || $table eq 'role' ? undef : "u$n";
        my $target = { own => "'u$n'", plain => "'u$n'", team => "'t$n'", role => "'r'" }->{$table};
        $sql .= "INSERT INTO $table VALUES ($newest" . (defined $target ? ", $target" : '') . ');';
    }
    return $pg->safe_psql('postgres', $sql);
}

connect_device($_) for @devices;
while ($returns < $RETURNS)
{
    my $device = $devices[ rand @devices ];
    my $random = rand 100;
    if    ($random < 20) { commit_some() }
    elsif ($random < 45) { ack_some($device, 0.7) }
    elsif ($random < 70) { disconnect_device($device) }
    else                 { connect_device($device) }
}

sub missing
{
    my ($device) = @_;
    return grep { (!defined $users_of{$_} || $users_of{$_} eq $device->{user}) && !$device->{seen}{$_} } $device->{begins} + 1 .. $newest;
}
sub run_loops
{
    my ($device) = @_;
    my $ticks = 0;
    return $device->{client}->run_until('one loop iteration has passed', sub { $ticks++ > 0 });
}

wait_until('all notifications are acknowledged', sub {
    for my $device (@devices)
    {
        connect_device($device);
        ack_some($device, 1);
        run_loops($device);
    }
    return !grep { $store->execute('EXISTS', $_) } map { $store->keys("pending_list:u$_") } 1 .. $USERS;
});
$pg->safe_psql('postgres', join '', map { $newest++; $users_of{$newest} = "u$_"; "INSERT INTO plain VALUES ($newest, 'u$_');" } 1 .. $USERS);
# A device with a small window may receive the last row, which needs no acknowledgement, before rows that wait for the window.
eval {
    wait_until('all clients have received all rows', sub {
        for my $device (@devices) { run_loops($device); process_new($device) }
        return !grep { missing($_) } @devices;
    });
    1;
} or diag $@;
for my $device (@devices)
{
    my @missing = missing($device);
    fault($device, @missing . " rows are never received: @missing") if @missing;
}
wait_until('acked follows each row that another device acknowledged', sub {
    for my $device (@devices) { run_loops($device); process_new($device) }
    return !grep { @{ unfollowed($_) } } @devices;
}, 10) if !@faults;

# The rows of this connection that another device acknowledged, and that no `acked` follows.
sub unfollowed
{
    my ($device) = @_;
    my ($at, @found) = (0);
    for my $line (@{ $device->{client}{messages} })
    {
        $at++;
        next if $line->{t} ne 'msg' || !$must_ack{ $line->{n}{payload}{after}{id} };
        my $id = $line->{n}{metadata}{id};
        push @found, $line->{n}{payload}{after}{id} if !$device->{by_me}{$id} && ($device->{acked}{$id} // 0) < $at;
    }
    return \@found;
}
is(join("\n", @faults > 20 ? (@faults[ 0 .. 19 ], @faults . ' faults') : @faults), '', 'no device misses a row, receives one twice, or receives a gap');
note("$newest rows, $resumed of $returns returns are resumed");
is($_->metric('clairon_store_errors_total'), 0, 'the store returns no errors') for @relays;

done_testing();
