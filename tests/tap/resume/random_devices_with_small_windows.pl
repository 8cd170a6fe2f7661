# Tests users with several devices with small in-flight windows. The devices connect, disconnect and acknowledge at
# random while relays are killed: each device receives all notifications of its user, or a gap after a lost
# notification.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use JSON ();
use Mojo::UserAgent;
use Test::More;

my $seed = $ENV{CLAIRON_TEST_SEED} // time;
srand $seed;
note("seed $seed");

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE required (id int PRIMARY KEY, owner text);
    CREATE TABLE urgent (id int PRIMARY KEY, owner text);
    CREATE TABLE plain (id int PRIMARY KEY);
    CREATE TABLE alarm (id int PRIMARY KEY);
    SELECT clairon.watch('required', 'USER', 'owner', ack_required => true);
    SELECT clairon.watch('urgent', 'USER', 'owner', ack_required => true, priority => 'HIGH');
    SELECT clairon.watch('plain', 'ALL');
    SELECT clairon.watch('alarm', 'ALL', priority => 'HIGH')});
my $store  = Clairon::Test::store();
my %conf   = (conf => { 'delivery.ack_timeout' => rand() < 0.5 ? '1s' : '30s' });
my @relays = (Clairon::Test::relay($pg, $store, %conf), map { Clairon::Test::relay(undef, $store, roles => 'gate', %conf) } 1, 2);
my $agent  = Mojo::UserAgent->new(connect_timeout => 60, request_timeout => 60);

my $newest = 0;
my (%row_of, %owner); # by notification id: the owner of its row, if the row has only one user
# The third device of each user polls.
my @devices = map { my $user = "u$_"; map { { user => $user, is_poll => $_ == 3, excused => 0, gaps => 0, to_ack => [] } } 1 .. 3 } 1 .. 3;

# Records the newest cursor, the received rows and the announced gaps.
sub process
{
    my ($device, $line) = @_;
    if ($line->{t} eq 'msg')
    {
        $device->{seen}{ $line->{n}{payload}{after}{id} } = 1;
        $device->{pos} = $line->{pos};
        push @{ $device->{to_ack} }, $line->{n}{metadata}{id} if $line->{n}{routing}{retry}{ack_required};
    }
    elsif ($line->{t} eq 'gap')
    {
        $device->{pos}     = $line->{to};
        $device->{excused} = $newest;
        $device->{gaps}++;
    }
    elsif ($line->{t} eq 'connected')
    {
        $device->{pos} = $line->{pos} if !$line->{resumed};
        $device->{begins} //= $newest;
    }
    return;
}

# Processes the frames received since the last call.
sub process_new
{
    my ($device) = @_;
    my $lines = $device->{client} ? $device->{client}{messages} : [];
    process($device, $lines->[ $device->{at}++ ]) while $device->{at} < @$lines;
    return;
}

# Some responses are lost.
sub poll
{
    my ($device) = @_;
    my $max    = 1 + int rand 4;
    my $from   = defined $device->{pos} ? "&pos=$device->{pos}" : '';
    my $response = eval { $agent->get($relays[ rand @relays ]->url("/v1/poll?wait=0&max=$max$from"), bearer($device))->result };
    return if !$response || $response->code !~ /^20/ || (defined $device->{pos} && rand() < 0.1);
    process($device, JSON::decode_json($_)) for split /\n/, $response->body;
    $device->{pos} = $response->headers->header('Clairon-Pos');
    $device->{begins} //= $newest;
    return;
}

sub bearer { return { Authorization => 'Bearer ' . Clairon::Test::token(sub => $_[0]{user}) } }

sub connect_device
{
    my ($device) = @_;
    return poll($device) if $device->{is_poll};
    return if $device->{client} && !$device->{client}{closed};
    my $client = eval { $relays[ rand @relays ]->client($device->{user}, win => 1 + int rand 4,
        defined $device->{pos} ? (pos => $device->{pos}) : ()) };
    return if !$client;
    @{$device}{qw(client at to_ack)} = ($client, 0, []);
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
    return if !$device->{is_poll} && (!$device->{client} || $device->{client}{closed});
    process_new($device);
    my @ids = grep { rand() < $share } @{ $device->{to_ack} };
    my %now = map { $_ => 1 } @ids;
    $device->{to_ack} = [ grep { !$now{$_} } @{ $device->{to_ack} } ];
    return if !@ids;
    return $device->{client}->ack(@ids) if !$device->{is_poll};
    my $response = eval { $agent->post($relays[ rand @relays ]->url('/v1/ack'), bearer($device), json => { ids => \@ids })->result };
    push @{ $device->{to_ack} }, @ids if !$response || $response->code !~ /^20/;
    return;
}

sub commit_some
{
    my $user = 'u' . (1 + int rand 3);
    my $sql  = '';
    for (0 .. rand 4)
    {
        my $table = (qw(required required required urgent plain alarm))[ rand 6 ];
        my $is_own = $table =~ /required|urgent/;
        $newest++;
        $owner{$newest} = $user if $is_own;
        $sql .= "INSERT INTO $table VALUES ($newest" . ($is_own ? ", '$user'" : '') . ');';
    }
    $pg->safe_psql('postgres', $sql);
    return;
}

sub kill_and_restart
{
    my $relay = $relays[ rand @relays ];
    $relay->kill9;
    $relay->start;
    $relay->wait_ready;
    return;
}

connect_device($_) for @devices;
process_new($_) for @devices;
for my $step (1 .. 400)
{
    my $device = $devices[ rand @devices ];
    my $random = rand 100;
    if    ($random < 35) { commit_some() }
    elsif ($random < 60) { ack_some($device, 0.6) }
    elsif ($random < 78) { disconnect_device($device) }
    elsif ($random < 99) { connect_device($device) }
    else               { kill_and_restart() }
}

sub is_for { my ($device, $row) = @_; return !defined $owner{$row} || $owner{$row} eq $device->{user} }
sub missing
{
    my ($device) = @_;
    return grep { is_for($device, $_) && !$device->{seen}{$_} && $_ > $device->{excused} } $device->{begins} + 1 .. $newest;
}

sub run_loops
{
    my ($device) = @_;
    my $ticks = 0;
    $device->{client}->run_until('one loop iteration has passed', sub { $ticks++ > 0 }) if $device->{client};
    return;
}

# At the end, all devices connect and acknowledge all notifications. New rows then follow all queued rows.
wait_until('all notifications are acknowledged', sub {
    for my $device (@devices)
    {
        connect_device($device);
        ack_some($device, 1);
        run_loops($device);
    }
    return $store->pending == 0;
});
$pg->safe_psql('postgres', 'INSERT INTO plain VALUES (' . ++$newest . ')');
wait_until('all clients have received the last row', sub {
    for my $device (@devices)
    {
        connect_device($device);
        run_loops($device);
        process_new($device);
    }
    return !grep { !$_->{seen}{$newest} } @devices;
});
for my $device (@devices)
{
    is(join(' ', missing($device)), '', "a device of $device->{user} receives all notifications except announced gaps");
}
my $gaps = 0;
$gaps += $_->{gaps} for @devices;
note("$newest rows, $gaps gaps");
is($_->metric('clairon_store_errors_total'), 0, 'the store returns no errors') for @relays;

done_testing();
