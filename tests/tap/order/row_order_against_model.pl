# Tests, with random devices, in-flight windows, acks, retries and relays, that a row's changes are first delivered in
# commit order and that no notification is lost.
#
# Each seed is a user with a few rows, several devices and a separate random sequence; many users run in parallel on the
# same servers. CLAIRON_ORDER_SEED=n starts at seed n, CLAIRON_ORDER_SEEDS=n sets the number of seeds, and
# CLAIRON_ORDER_STEPS=n their length. CLAIRON_TEST_SHARDS=4 splits the store.
use strict;
use warnings;

use Clairon::Test qw(wait_until amount);
use JSON ();
use Mojo::UserAgent;
use Test::More;

my $SEED  = $ENV{CLAIRON_ORDER_SEED}  // int rand 1_000_000;
my $SEEDS = $ENV{CLAIRON_ORDER_SEEDS} // amount(14, 200);
my $STEPS = $ENV{CLAIRON_ORDER_STEPS} // 40;
my $SIDE_BY_SIDE = 40;
note "seed $SEED, $SEEDS seeds, $STEPS steps";
srand $SEED;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE required (id int PRIMARY KEY, version int, targets text[]);
    CREATE TABLE urgent (LIKE required INCLUDING ALL);
    CREATE TABLE brief (LIKE required INCLUDING ALL);
    CREATE TABLE team (LIKE required INCLUDING ALL);
    CREATE TABLE plain (LIKE required INCLUDING ALL);
    SELECT clairon.watch('required', 'USER', 'targets', ack_required => true);
    SELECT clairon.watch('urgent', 'USER', 'targets', ack_required => true, priority => 'HIGH');
    SELECT clairon.watch('brief', 'USER', 'targets', ack_required => true, retry_limit => 1);
    SELECT clairon.watch('team', 'TEAM', 'targets', ack_required => true);
    SELECT clairon.watch('plain', 'USER', 'targets')});
my $store = Clairon::Test::store();
my %conf  = (conf => { 'delivery.ack_timeout' => '700ms', 'delivery.backoff_base' => '50ms', 'delivery.backoff_cap' => '500ms' });
my @relays = (Clairon::Test::relay($pg, $store, %conf), Clairon::Test::relay(undef, $store, roles => 'gate', %conf));
my $agent  = Mojo::UserAgent->new(connect_timeout => 60, request_timeout => 60);
my $stopped;    # a relay that receives all notifications late

my ($commit, $row) = (0, 0);
my $sql = '';
my (@faults, @lost);
my ($repeats, $gaps, $sessions) = (0, 0, 0);

# Returns a random number below `$below` from the world's sequence.
sub random_below
{
    my ($world, $below) = @_;
    use integer;
    $world->{dice} = $world->{dice} * 6364136223846793005 + 1442695040888963407;
    return (($world->{dice} >> 33) & 0x3fffffff) % $below;
}

sub any_of { my ($world, @of) = @_; return @of ? $of[ random_below($world, scalar @of) ] : undef }

sub new_world
{
    my ($seed) = @_;
    my $world = { seed => $seed, dice => $seed * 7919, user => "u$seed", is_member => 1 };
    random_below($world, 2) for 1 .. 5;
    $sql .= "INSERT INTO clairon.member VALUES ('TEAM', 't$seed', 'u$seed');";
    for my $table (qw(required required urgent brief team plain))
    {
        push @{ $world->{rows} }, { table => $table, id => ++$row, version => 0 };
    }
    $world->{devices} = [ map { { world => $world, seen => {}, excused => 0, is_checked => 1, is_poll => $_ == 4 } } 1 .. 4 ];
    return $world;
}

# Writes a new row, or a new version of a row; sometimes also for another user, whose stream may be in another shard.
sub change_row
{
    my ($world) = @_;
    my $is = any_of($world, @{ $world->{rows} });
    my $target = $is->{table} eq 'team' ? "t$world->{seed}" : $world->{user};
    my $others = random_below($world, 3) ? '' : ',nobody';
    $is->{version}++;
    $sql .= "INSERT INTO $is->{table} VALUES ($is->{id}, $is->{version}, '{$target$others}')"
      . " ON CONFLICT (id) DO UPDATE SET version = excluded.version, targets = excluded.targets;";
    push @{ $world->{commits} }, { name => "$is->{table} $is->{id}.$is->{version}", is_checked => $is->{table} ne 'team', at => ++$commit };
    return;
}

sub change_member
{
    my ($world) = @_;
    my $pair = "('TEAM', 't$world->{seed}', '$world->{user}')";
    $sql .= $world->{is_member} ? "DELETE FROM clairon.member WHERE (audience, target, user_id) = $pair;" : "INSERT INTO clairon.member VALUES $pair;";
    $world->{is_member} = !$world->{is_member};
    return;
}

# Sessions.

sub name_of { my ($notification) = @_; my $is = $notification->{payload}{after}; return "$notification->{metadata}{source} $is->{id}.$is->{version}" }

# Checks the deliveries of one session against the commit order.
sub check_order
{
    my ($device, $notification) = @_;
    my $is = $notification->{payload}{after};
    my $key = "$notification->{metadata}{source} $is->{id}";
    my $newest = $device->{newest}{$key} // 0;
    my $attempts = $notification->{routing}{retry}{attempts};
    push @faults, "seed $device->{world}{seed}: " . name_of($notification) . " behind version $newest" if $is->{version} < $newest && !$attempts;
    $repeats++ if $attempts;
    $device->{newest}{$key} = $is->{version} if $is->{version} > $newest;
    return;
}

sub process
{
    my ($device, $line) = @_;
    if ($line->{t} eq 'msg' && $line->{n}{payload}{after})
    {
        check_order($device, $line->{n});
        $device->{seen}{ name_of($line->{n}) } = 1;
        push @{ $device->{to_ack} }, $line->{n}{metadata}{id} if $line->{n}{routing}{retry}{ack_required};
        push @{ $device->{positions} }, $line->{pos};
    }
    elsif ($line->{t} eq 'gap')
    {
        $device->{excused} = $commit;
        push @{ $device->{positions} }, $line->{to};
        $gaps++;
    }
    elsif ($line->{t} eq 'connected')
    {
        push @{ $device->{positions} }, $line->{pos} if !$line->{resumed};
        $device->{begins} //= $commit;
    }
    return;
}

sub process_new
{
    my ($device) = @_;
    my $lines = $device->{client} ? $device->{client}{messages} : [];
    process($device, $lines->[ $device->{at}++ ]) while $device->{at} < @$lines;
    return;
}

sub is_connected { my ($device) = @_; return $device->{client} && !$device->{client}{closed} }

sub bearer { return { Authorization => 'Bearer ' . Clairon::Test::token(sub => $_[0]{world}{user}) } }

# Each poll is a session. Some responses are lost.
sub poll
{
    my ($device) = @_;
    my $world = $device->{world};
    my ($relay) = grep { !$stopped || $_ != $stopped } @relays[ map { ($_, 1 - $_) } random_below($world, 2) ];
    my $from = defined $device->{pos} ? "&pos=$device->{pos}" : '';
    my $acknowledge = eval { $agent->get($relay->url('/v1/poll?wait=0&max=' . (1 + random_below($world, 6)) . $from), bearer($device))->result };
    return if !$acknowledge || $acknowledge->code !~ /^20/ || (defined $device->{pos} && random_below($world, 10) == 0);
    $device->{newest} = {};
    process($device, JSON::decode_json($_)) for split /\n/, $acknowledge->body;
    $device->{pos} = $acknowledge->headers->header('Clairon-Pos');
    $device->{begins} //= $commit;
    return;
}

sub post
{
    my ($device, $path, $ids, %more) = @_;
    my ($relay) = grep { !$stopped || $_ != $stopped } @relays;
    my $acknowledge = eval { $agent->post($relay->url($path), bearer($device), json => { ids => $ids, %more })->result };
    return $acknowledge && $acknowledge->code =~ /^20/;
}

# Usually connects with the newest cursor, sometimes with an older cursor or none. Without a cursor, the model does not
# count earlier notifications as missed.
sub connect_device
{
    my ($device, $is_last) = @_;
    my $world = $device->{world};
    return poll($device) if $device->{is_poll};
    return if is_connected($device);
    my ($relay) = grep { !$stopped || $_ != $stopped } @relays[ map { ($_, 1 - $_) } random_below($world, 2) ];
    my @cursors = @{ $device->{positions} // [] };
    my $from = @cursors ? $cursors[-1] : undef;
    $from = any_of($world, @cursors) if @cursors && random_below($world, 6) == 0;
    if (!$is_last && random_below($world, 12) == 0)
    {
        undef $from;
        $device->{excused} = $commit;
    }
    my $is_narrow = !$is_last && random_below($world, 10) == 0;
    my $client = eval { $relay->client($world->{user}, win => $is_last ? 16 : 1 + random_below($world, 4), (defined $from ? (pos => $from) : ()),
        ($is_narrow ? (topics => ['postgres.urgent']) : ())) };
    return if !$client;
    $device->{is_checked} = 0 if $is_narrow;    # filtered by its topics
    $sessions++;
    @{$device}{qw(client at newest to_ack relay)} = ($client, 0, {}, [], $relay);
    return process_new($device);
}

sub enlarge_window
{
    my ($device) = @_;
    return is_connected($device) ? $device->{client}->send({ t => 'subscribe', r => 1, topics => ['*'] }) : undef;
}

# Messages that were in transit when the connection was closed are also processed.
sub disconnect_device
{
    my ($device) = @_;
    my $client = $device->{client} or return;
    return if $stopped && $device->{relay} == $stopped;
    $client->close if is_connected($device);
    process_new($device);
    delete $device->{client};
    return;
}

sub acknowledge
{
    my ($device, $share) = @_;
    return if !$device->{is_poll} && !is_connected($device);
    my $world = $device->{world};
    process_new($device);
    my (@acks, @nacks, @later);
    for my $id (@{ $device->{to_ack} })
    {
        my $random_below = random_below($world, 100);
        push @{ $random_below < $share ? \@acks : $random_below < $share + 5 ? \@nacks : \@later }, $id;
    }
    $device->{to_ack} = \@later;
    if ($device->{is_poll})
    {
        push @later, @acks if @acks && !post($device, '/v1/ack', \@acks);
        return;
    }
    $device->{client}->send({ t => 'ack', ids => \@acks }) if @acks;
    $device->{client}->send({ t => 'nack', ids => \@nacks, delay => random_below($world, 300) }) if @nacks;
    return;
}

sub step
{
    my ($world) = @_;
    my $device = any_of($world, @{ $world->{devices} });
    my $what = random_below($world, 100);
    if    ($what < 40) { change_row($world) for 0 .. random_below($world, 3) }
    elsif ($what < 62) { acknowledge($device, 60) }
    elsif ($what < 76) { disconnect_device($device) }
    elsif ($what < 95) { connect_device($device) }
    elsif ($what < 98) { change_member($world) }
    else               { enlarge_window($device) }
    return;
}

sub commit_all
{
    $pg->safe_psql('postgres', "BEGIN; $sql COMMIT") if $sql;
    $sql = '';
    return;
}

# These faults affect all users: a killed relay, a stopped relay, redriven notifications.
sub inject_fault
{
    my $what = int rand 100;
    if ($stopped)
    {
        return if $what < 60;
        kill CONT => $stopped->{pid};
        undef $stopped;
    }
    elsif ($what < 12) { $stopped = $relays[ rand @relays ]; kill STOP => $stopped->{pid} }
    elsif ($what < 15)
    {
        my $relay = $relays[ rand @relays ];
        $relay->kill9;
        $relay->start;
        $relay->wait_ready;
    }
    elsif ($what < 25) { redrive_all() }
    return;
}

sub redrive_all
{
    return $store->error_count ? $relays[0]->run('errors', 'redrive', '--all') : undef;
}

sub pending_size { my ($world) = @_; my $count = 0; $count += $store->execute('ZCARD', $_) for $store->keys("pending_list:$world->{user}"); return $count }

# At the end, all devices connect and acknowledge all notifications, and a last row is written.
sub end_worlds
{
    my (@worlds) = @_;
    if ($stopped) { kill CONT => $stopped->{pid}; undef $stopped }
    for my $world (@worlds)
    {
        change_member($world) if !$world->{is_member};
        disconnect_device($_) for @{ $world->{devices} };
    }
    commit_all();
    my @devices = map { @{ $_->{devices} } } @worlds;
    wait_until('all notifications are acknowledged', sub {
        for my $device (@devices)
        {
            connect_device($device, 1);
            acknowledge($device, 95);
        }
        redrive_all();
        Clairon::Test::Client::run_for(0.05);
        return !$store->error_count && !grep { pending_size($_) } @worlds;
    });
    for my $world (@worlds)
    {
        $world->{last} = ++$row;
        $sql .= "INSERT INTO plain VALUES ($row, 1, '{$world->{user}}');";
    }
    commit_all();
    wait_until('all clients have received the last row', sub {
        for my $device (@devices)
        {
            connect_device($device, 1);
            acknowledge($device, 100);
        }
        Clairon::Test::Client::run_for(0.05);
        return !grep { !$_->{seen}{"plain $_->{world}{last}.1"} } @devices;
    });
    for my $device (@devices)
    {
        push @lost, map { "seed $device->{world}{seed}: $_->{name}" }
          grep { $device->{is_checked} && $_->{is_checked} && $_->{at} > $device->{excused} && $_->{at} > $device->{begins} && !$device->{seen}{ $_->{name} } } @{ $device->{world}{commits} };
        disconnect_device($device);
    }
    return;
}

for (my $seed = $SEED; $seed < $SEED + $SEEDS; $seed += $SIDE_BY_SIDE)
{
    my $last = $seed + $SIDE_BY_SIDE < $SEED + $SEEDS ? $seed + $SIDE_BY_SIDE : $SEED + $SEEDS;
    my @worlds = map { new_world($_) } $seed .. $last - 1;
    commit_all();
    for (1 .. $STEPS)
    {
        inject_fault();
        step($_) for @worlds;
        commit_all();
        Clairon::Test::Client::run_for(rand() < 0.3 ? 0.06 : 0.005);
    }
    end_worlds(@worlds);
}
is(join("\n", @faults), '', 'first deliveries are in commit order');
is(join("\n", @lost), '', 'no notification is lost without a gap');
note "$commit commits, $sessions sessions, $repeats repeats, $gaps gaps";
is($_->metric('clairon_store_errors_total'), 0, 'the store returns no errors') for @relays;

done_testing();
