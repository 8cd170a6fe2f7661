# Tests that each committed row is stored exactly once, in commit order and for the users of its commit, and delivered
# and acknowledged, under random faults of a cluster and load.
#
# A seeded schedule of faults hits the cluster, two relays and PostgreSQL while writers commit, memberships change and
# clients acknowledge: primaries die or are paused until a replica is promoted, slots move completely or partly, nodes
# join and leave. Each row with an audience has the members as of its commit in a column; they must be exactly the users
# that must acknowledge it. CLAIRON_TORTURE_SEED=n repeats a run; CLAIRON_TORTURE_FAULTS=n makes it longer.
use strict;
use warnings;

use Clairon::Test qw(wait_until wait_confirmed amount scratch);
use Clairon::Test::Torture;
use JSON ();
use POSIX ();
use Test::More;
use Time::HiRes qw(time);

my $FAULTS  = $ENV{CLAIRON_TORTURE_FAULTS} // amount(5, 110);
my $SEED    = $ENV{CLAIRON_TORTURE_SEED} // int(rand(1_000_000));
my @USERS   = map { "u$_" } 1 .. 5;
my @DEVICES = qw(u1 u2 u5);    # connected during the faults
my $OUTSIDER = 'u5';           # a member of no team
my @WRITERS = 1 .. 3;
srand $SEED;
note "seed $SEED, $FAULTS faults";

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE plain (id bigserial PRIMARY KEY, writer int, n int, owner text);
    CREATE TABLE direct (id bigserial PRIMARY KEY, writer int, n int, owner text);
    CREATE TABLE acked (id bigserial PRIMARY KEY, writer int, n int, team text, members text[]);
    SELECT clairon.watch('plain', 'USER', 'owner');
    SELECT clairon.watch('direct', 'USER', 'owner', ack_required => true);
    SELECT clairon.watch('acked', 'TEAM', 'team', ack_required => true)});
my $cluster = Clairon::Test::store_cluster();
# Retries are disabled, so that a session that starts at the end receives all pending notifications. Load shedding is
# disabled, because pauses would trigger it.
my @relays = map { Clairon::Test::relay($pg, $cluster, conf => { 'delivery.ack_timeout' => '1h' }) } 1 .. 2;
my $torture = Clairon::Test::Torture->new(pg => $pg, seed => $SEED, tables => [qw(plain direct acked)], stored => sub { $cluster->stored });

# ---- devices: clients in separate processes, which reconnect with their cursor and acknowledge all notifications

sub record_of { my ($user) = @_; return scratch() . "/device-$user" }

# Writes each received frame to a file, in order: "row ID TABLE ROW", "gap REASON", or "connected".
sub run_device
{
    my ($user, $state) = @_;
    my $client = eval { $relays[ rand @relays ]->client($user, defined $state->{pos} ? (pos => $state->{pos}) : ()) };
    return select(undef, undef, undef, 0.1) unless $client;
    open my $out, '>>', record_of($user) or POSIX::_exit(1);
    $out->autoflush(1);
    print {$out} "connected\n";
    my $read = 0;
    eval {
        $client->run_until('the end', sub {
            my @new = @{ $client->{messages} }[ $read .. $#{ $client->{messages} } ];
            $read += @new;
            print {$out} "gap $_->{why}\n" for grep { $_->{t} eq 'gap' } @new;
            my @notifications = map { $_->{n} } grep { $_->{t} eq 'msg' } @new;
            print {$out} "row $_->{metadata}{id} $_->{metadata}{source} $_->{payload}{after}{id}\n" for @notifications;
            my @ids = map { $_->{metadata}{id} } grep { $_->{routing}{retry}{ack_required} } @notifications;
            $client->send_now({ t => 'ack', ids => \@ids }) if @ids;
            return $client->{closed} || -e "$torture->{stop_file}.devices";
        }, 3600);
    };
    $state->{pos} = $client->pos // $state->{pos};
    POSIX::_exit(0) if -e "$torture->{stop_file}.devices";
    return;
}

my @devices;
for my $user (@DEVICES)
{
    my $parent = $$;
    my $pid = fork // die "could not fork: $!";
    if ($pid == 0)
    {
        local $Clairon::Test::SECONDS = 10;
        my %state;
        srand($SEED + 10 + @devices);
        run_device($user, \%state) while getppid() == $parent && !-e "$torture->{stop_file}.devices";
        POSIX::_exit(0);
    }
    push @devices, $pid;
}

sub lines_of { my ($user) = @_; open my $in, '<', record_of($user) or return; my @lines = <$in>; chomp @lines; return @lines }
wait_until('the devices are connected', sub { !grep { !-s record_of($_) } @DEVICES });

# ---- load

# Each writer has a separate team, so the members in its snapshot are the members at the commit.
for my $writer (@WRITERS)
{
    my ($n, $team) = (0, "w$writer");
    $torture->start_writer($writer, sub {
        my ($first, $last) = ($n + 1, $n + 1 + int rand 10);
        my $user = $USERS[ rand 4 ];
        $n = $last;
        return (rand() < 0.3 ? "INSERT INTO clairon.member VALUES ('TEAM', '$team', '$user') ON CONFLICT DO NOTHING;" : '')
          . (rand() < 0.2 ? "DELETE FROM clairon.member WHERE target = '$team' AND user_id = '$user';" : '')
          . "INSERT INTO plain (writer, n, owner) SELECT $writer, i, 'u' || 1 + i % 5 FROM generate_series($first, $last) i;"
          . (rand() < 0.3 ? "INSERT INTO direct (writer, n, owner) VALUES ($writer, $last, '$USERS[rand @USERS]');" : '')
          # The team always has a member, because otherwise a notification would be pending for every later recipient.
          . (rand() < 0.6 ? "INSERT INTO acked (writer, n, team, members) SELECT $writer, $last, '$team', members FROM (
                SELECT array_agg(user_id ORDER BY user_id) AS members FROM clairon.member WHERE target = '$team') m WHERE members IS NOT NULL;" : '');
    });
}

# ---- faults of the cluster

my @added;

sub any_of { return $_[ rand @_ ] }
sub any_shard { return int rand $cluster->shards }
sub other_primary { my ($node) = @_; return any_of(grep { $_ != $node } $cluster->primaries) }

# Waits until a replica becomes the primary. A replica that was disconnected for too long is never promoted; in that
# case the former primary returns.
sub wait_takeover
{
    my ($shard, $former) = @_;
    my $until = time + 15;
    wait_until('a replica is promoted', sub { my $node = $cluster->primary_of($shard); time > $until || $node && $node != $former });
    $torture->wait_random;
    return;
}

sub primary_fails
{
    my ($fail) = @_;
    my $shard  = any_shard();
    my $former = $cluster->primary_of($shard) or return;
    $fail->($former);
    wait_takeover($shard, $former) if rand() < 0.8;
    return $cluster->heal;
}

# Moves a shard. Writes continue during the move and after half of the keys have moved.
sub move_shard
{
    my ($shard, $to, $is_halted) = @_;
    my $from = $cluster->begin_move($shard, $to) or return;
    if ($is_halted)
    {
        $cluster->move_keys($shard, $from, $to, 1 + int rand 8);
        $torture->wait_rows(30);
    }
    1 while $cluster->move_keys($shard, $from, $to, 10);
    return $cluster->end_move($shard, $from, $to);
}

sub random_move
{
    my ($is_halted) = @_;
    my $shard = any_shard();
    move_shard($shard, other_primary($cluster->primary_of($shard)), $is_halted);
    return $cluster->heal;
}

sub node_joins
{
    return node_leaves() if @added;
    my $node = $cluster->add_node;
    push @added, $node;
    move_shard($_, $node) for 0, 1 + int rand 15;
    return $cluster->heal;
}

sub node_leaves
{
    my $node = shift @added or return node_joins();
    for my $shard (grep { $cluster->primary_of($_) == $node } 0 .. $cluster->shards - 1)
    {
        move_shard($shard, other_primary($node));
    }
    $cluster->remove_node($node);
    return $cluster->heal;
}

sub planned_failover
{
    my $replica = any_of(grep { $_->execute('ROLE')->[0] eq 'slave' } $cluster->alive) or return;
    my $next = 0;
    wait_until('the replica is the primary', sub {
        return 1 if $replica->execute('ROLE')->[0] eq 'master';
        return 0 if time < $next;
        $next = time + 6;    # a node abandons a failover on request after five seconds
        eval { $replica->execute('CLUSTER', 'FAILOVER') };
        return 0 });
    return $cluster->heal;
}

my %faults = (
    $torture->common_faults(@relays),
    'a primary is killed' => sub { primary_fails(sub { $_[0]->kill9 }) },
    'a primary is killed, and a relay' => sub { primary_fails(sub { my $relay = any_of(@relays); $_->kill9 for $_[0], $relay; $relay->start }) },
    'a primary is paused' => sub { primary_fails(sub { $cluster->pause($_[0]) }) },
    'a primary is paused briefly' => sub { $torture->pause(any_of($cluster->primaries)->pid); $cluster->heal },
    'connections to a node are cut' => sub { any_of($cluster->primaries)->execute(qw(CLIENT KILL TYPE normal)) },
    'a replica is promoted on request' => \&planned_failover,
    'a slot moves' => sub { random_move(0) },
    'a move of a slot is interrupted' => sub { random_move(1) },
    'a move of a slot is interrupted, and a relay is killed' => sub { my $relay = any_of(@relays); $relay->kill9; $relay->start; random_move(1) },
    'a node joins' => \&node_joins,
    'a node leaves' => \&node_leaves,
);
$torture->run($FAULTS, %faults);
$torture->stop;

# ---- checks: all rows are stored once, in order, for the correct users

my $rows = $torture->committed;
cmp_ok($rows, '>', 10 * $FAULTS, "writers commit $rows rows during $FAULTS faults");
wait_until("all $rows rows are stored", sub { $torture->stored >= $rows });
my @entries = $cluster->entries;
$torture->check_stored_once(@entries);
for my $stream ($cluster->keys('stream'))
{
    $torture->check_commit_order($stream, grep { $_->{stream} eq $stream } @entries);
}

my %entry_of = map { Clairon::Test::Torture::row_of($_) => $_ } @entries;
my %members = map { my ($id, $list) = split /\|/; ("acked $id" => [ split /,/, $list ]) }
  split /\n/, $pg->safe_psql('postgres', q{SELECT id || '|' || array_to_string(members, ',') FROM acked});
my @wrong;
for my $row (sort keys %members)
{
    my @users = $cluster->audience_of($entry_of{$row} // next);
    push @wrong, "$row: @users instead of @{ $members{$row} }" if "@users" ne "@{ $members{$row} }";
}
is_deeply(\@wrong, [], scalar(keys %members) . ' audiences contain the members at the commit');

# Users who left a team before the delivery do not receive the row.
$pg->safe_psql('postgres', q{INSERT INTO clairon.member SELECT 'TEAM', 'w' || w, 'u' || u FROM generate_series(1, 3) w, generate_series(1, 4) u ON CONFLICT DO NOTHING});
wait_until('the relays are ready', sub { !grep { ($_->get('/readyz'))[0] != 200 } @relays });
sub rows_of { my ($user, @tables) = @_; return map { my $table = $_; map { "$table $_" } split /\n/, $pg->safe_psql('postgres', "SELECT id FROM $table WHERE owner = '$user' ORDER BY id") } @tables }
my %acked_of;
for my $row (keys %members) { push @{ $acked_of{$_} }, $row for @{ $members{$row} } }
for my $user (@DEVICES)
{
    my @expected = (rows_of($user, qw(plain direct)), @{ $acked_of{$user} // [] });
    my %received;
    my $complete = eval { wait_until("$user receives all rows", sub {
        %received = map { /^row \S+ (.*)/ ? ($1 => 1) : () } lines_of($user);
        !grep { !$received{$_} } @expected; }) };
    my @lacks = grep { !$received{$_} } @expected;
    is_deeply(\@lacks, [], "$user receives each of " . @expected . ' notifications') or diag join ' ', map { "$_ $entry_of{$_}{id} $entry_of{$_}{stream}" } @lacks[ 0 .. ($#lacks > 9 ? 9 : $#lacks) ];
    is_deeply([ grep { /^acked/ && !grep { $_ ne $OUTSIDER } $user } keys %received ], [], "$user receives no notification of a team") if $user eq $OUTSIDER;
    my %own = map { $_ => 1 } @expected;
    is_deeply([ grep { !/^acked/ && !$own{$_} } keys %received ], [], "$user receives no notification of another user");
    my %had;
    my @order = map { /^row (\S+) plain (\d+)/ && !$had{$1}++ ? $2 : () } lines_of($user);
    my %writer = split /[\n|]/, $pg->safe_psql('postgres', "SELECT id, writer FROM plain WHERE owner = '$user'");
    my (%last, @unordered);
    for my $row (@order) { push @unordered, $row if $row < ($last{ $writer{$row} } // 0); $last{ $writer{$row} } = $row }
    is_deeply(\@unordered, [], "$user receives the rows of each writer in order");
    note "$user: " . scalar(@order) . ' rows, ' . scalar(grep { /^row/ } lines_of($user)) . ' deliveries, gaps: ' . join ' ', map { /^gap (.*)/ } lines_of($user);
}
open my $file, '>', "$torture->{stop_file}.devices" or die $!;
close $file;
waitpid $_, 0 for @devices;

# After a primary died, acknowledgements may be requested again; all other acknowledgements are sent once.
for my $user (@USERS)
{
    my $client = $relays[ rand @relays ]->client($user);
    my $ended = eval { $client->run_until("$user has acknowledged all notifications", sub {
        $client->ack_received;
        return !grep { $cluster->execute('EXISTS', $_) } $cluster->keys("pending_list:$user");
    }) };
    ok($ended, "$user has acknowledged all notifications") or diag $@;
    my %received = map { ("$_->{metadata}{source} $_->{payload}{after}{id}" => 1) } $client->notifications;
    is_deeply([ sort keys %received ], [ sort(rows_of($user, 'direct'), @{ $acked_of{$user} // [] }) ], "$user, absent before, receives exactly the pending notifications")
      unless grep { $_ eq $user } @DEVICES;
    $client->close;
}
is($cluster->pending, 0, 'all acknowledgements are stored');
is_deeply([ grep { /:(ack:|pending|left)/ } map { $_->execute('ROLE')->[0] eq 'master' ? @{ $_->execute('KEYS', '*') } : () } $cluster->alive ], [],
    'no notification remains pending');
node_leaves() while @added;    # without a replica, the relay confirms no LSN
wait_confirmed($pg);
pass('the slot advances');

done_testing();
