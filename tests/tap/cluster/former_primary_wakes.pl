# Tests that a former primary that wakes after a failover makes no client miss a row. It still runs the retries that wait
# in its socket buffers, and relays that read its stream receive entries that the new primary does not have.
#
# A seeded schedule pauses or separates the primary of a shard, and pauses a relay or not, while forty notifications are
# retried. The primary wakes before or after the failover, before, with or after the relay. Each client must receive each
# row or a gap, also after a resume from any cursor that a relay has sent, on any relay. With store.min_replicas 1 there
# must be no gap. CLAIRON_WAKE_SEED=n repeats a run; CLAIRON_WAKE_RUNS=n makes it longer; CLAIRON_WAKE_SETUPS='sentinels/1/0'
# selects setups (store / shards / min_replicas).
use strict;
use warnings;

use Clairon::Test qw(wait_until amount);
use List::Util qw(shuffle);
use Test::More;
use Time::HiRes qw(time sleep);

my $SEED   = $ENV{CLAIRON_WAKE_SEED} // int(rand(1_000_000));
my @SETUPS = split / /, $ENV{CLAIRON_WAKE_SETUPS}
  // amount('cluster/16/1 sentinels/1/0', 'cluster/16/1 cluster/16/0 cluster/1/1 cluster/1/0 sentinels/1/1 sentinels/1/0');
my $RUNS = $ENV{CLAIRON_WAKE_RUNS} // amount(scalar @SETUPS, 102);
note "seed $SEED, $RUNS runs";
srand $SEED;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE everyone (id bigserial PRIMARY KEY);
    CREATE TABLE own (id bigserial PRIMARY KEY, owner text);
    CREATE TABLE held (id bigserial PRIMARY KEY, team text);
    CREATE TABLE held_own (id bigserial PRIMARY KEY, owner text);
    INSERT INTO clairon.member VALUES ('TEAM', 't', 'h1'), ('TEAM', 't', 'h2');
    SELECT clairon.watch('everyone', 'ALL');
    SELECT clairon.watch('own', 'USER', 'owner');
    SELECT clairon.watch('held', 'TEAM', 'team', ack_required => true, retry_limit => 30000, backoff => 'FIXED');
    SELECT clairon.watch('held_own', 'USER', 'owner', ack_required => true, retry_limit => 30000, backoff => 'FIXED')});

# ---- the store: a cluster or sentinels, with the same interface

sub start_store
{
    my ($kind, $shards, $is_separable) = @_;
    return Clairon::Test::sentinels(replicas => 1) if $kind eq 'sentinels';
    return Clairon::Test::store_cluster(shards => $shards, $is_separable ? (network => Clairon::Test::network(6)) : ());
}

sub is_cluster { return $_[0]->isa('Clairon::Test::StoreCluster') }
sub primary_of { my ($store, $shard) = @_; return is_cluster($store) ? $store->primary_of($shard) : $store->primary }
sub wait_failover { my ($store, $shard, $former) = @_; return is_cluster($store) ? $store->wait_failover($shard, $former) : $store->wait_failover($former) }

sub freeze
{
    my ($store, $node, $is_separated) = @_;
    if    ($is_separated)      { $store->{network}->separate($node) }
    elsif (is_cluster($store)) { $store->pause($node) }
    else                       { $node->pause }
    return;
}

sub wake
{
    my ($store, $node, $is_separated) = @_;
    if    ($is_separated)      { $store->{network}->reunite }
    elsif (is_cluster($store)) { $store->resume($node) }
    else                       { kill CONT => $node->pid }
    return;
}

sub heal
{
    my ($store) = @_;
    if (is_cluster($store)) { $store->heal; $store->wait_agreed; return }
    wait_until('the former primary is a replica in sync', sub {
        my $role = eval { $store->primary->execute('ROLE') };
        return $role && $role->[0] eq 'master' && @{ $role->[2] } == 1 });
    return;
}

# ---- clients

# Reads the new frames of a client: rows as {"everyone 1" => 1}, gaps, and the cursors with the rows received up to them.
sub read_client
{
    my ($state) = @_;
    my $messages = $state->{client}{messages};
    for my $message (@{$messages}[ $state->{read} // 0 .. $#$messages ])
    {
        $state->{gaps} .= " $message->{why}" if $message->{t} eq 'gap';
        my $source = $message->{t} eq 'msg' ? $message->{n}{metadata}{source} : '';
        $state->{had}{"$source $message->{n}{payload}{after}{id}"} = 1 if $source eq 'everyone' || $source eq 'own';
        $state->{pos} = $message->{pos} if defined $message->{pos};
    }
    $state->{read} = @$messages;
    return $state;
}

sub rows_of
{
    my ($user) = @_;
    return split /\n/, $pg->safe_psql('postgres', qq{SELECT 'everyone ' || id FROM everyone UNION ALL SELECT 'own ' || id FROM own WHERE owner = '$user'});
}

sub insert
{
    my ($count) = @_;
    $pg->safe_psql('postgres', qq{INSERT INTO everyone SELECT FROM generate_series(1, $count);
        INSERT INTO own (owner) SELECT 'u' || 1 + i % 2 FROM generate_series(1, $count) i});
    return;
}

# Inserts a last row for each user, and waits until each client has received it. Returns the rows that a client lacks.
sub check_rows
{
    my ($what, $min_replicas, @states) = @_;
    insert(2);
    my %rows = map { $_ => [ rows_of($_) ] } map { $_->{user} } @states;
    my %last = map { $_ => ($pg->safe_psql('postgres', "SELECT 'own ' || max(id) FROM own WHERE owner = '$_'")) } keys %rows;
    my $all  = $pg->safe_psql('postgres', q{SELECT 'everyone ' || max(id) FROM everyone});
    for my $state (@states)
    {
        $state->{client}->run_until("$what: $state->{user} receives the last rows", sub {
            $state->{client}{closed} and die "$what: $state->{user} was closed: " . $state->{client}->transcript;
            read_client($state);
            return $state->{had}{$all} && $state->{had}{ $last{ $state->{user} } } });
        my @missing = grep { !$state->{had}{$_} && ($_ ne $all) } @{ $rows{ $state->{user} } };
        my $gaps    = $state->{gaps} // '';
        if ($min_replicas) { is("@missing$gaps", '', "$what: $state->{user} on $state->{on} receives each row, without a gap") }
        else               { ok(!@missing || $gaps, "$what: $state->{user} on $state->{on} receives each row, or a gap") or diag "missing: @missing" }
    }
    return;
}

# A client in the name of the same user, with a cursor that a relay has sent to `$state`.
sub resume
{
    my ($state, $relay, $on) = @_;
    my %copy = (user => $state->{user}, on => "$on after a resume", had => { %{ $state->{had} } });
    # A relay that has not reconnected to the store closes new clients.
    wait_until('a client resumes', sub {
        my $client = $relay->client($state->{user}, pos => $state->{pos});
        ($client->{messages}[0]{t} // '') eq 'connected' and return $copy{client} = $client;
        return });
    return \%copy;
}

# ---- one run

sub run_once
{
    my ($world, $what, $plan) = @_;
    my ($store, $first, $second) = @{$world}{qw(store first second)};
    my %states = (u1 => { user => 'u1', on => 'the first relay', client => $first->client('u1') },
        u2 => { user => 'u2', on => 'the second relay', client => $second->client('u2') });
    my $shard  = $plan->{own} ? $store->shard_of('u2') : 0;
    my $former = primary_of($store, $shard);
    insert(3);
    my @states = @states{qw(u1 u2)};
    $_->{had} = { map { $_ => 1 } rows_of($_->{user}) } for @states;    # earlier rows are not sent to new clients
    insert(2);
    $states[0]{client}->run_until('the clients receive rows', sub { !grep { keys %{ read_client($_)->{had} } < rows_of($_->{user}) } @states });
    my @resumed = map { { %$_, had => { %{ $_->{had} } } } } @states;

    freeze($store, $former, $plan->{separated});
    sleep $plan->{before_relay};
    kill STOP => $second->pid if $plan->{asleep};
    insert(10);
    if ($plan->{early}) { sleep $plan->{early} }
    else
    {
        wait_failover($store, $shard, $former);
        my @rows = rows_of('u1');
        $states[0]{client}->run_until("$what: the new primary delivers", sub { !grep { !read_client($states[0])->{had}{$_} } @rows });
    }
    for my $one (@{ $plan->{order} })
    {
        if ($one eq 'primary') { wake($store, $former, $plan->{separated}) }
        elsif ($plan->{asleep}) { kill CONT => $second->pid }
        sleep $plan->{between};
    }
    # This relay may not have switched to the new primary yet, from which the cursor is.
    my @immediate = $plan->{asleep} && !$plan->{early} ? resume(read_client($states[0]), $second, 'the second relay immediately') : ();
    # Cursors at some moments after the wake.
    for (1 .. 3)
    {
        my $until = time + 0.3 + rand 0.7;
        insert(1);
        $states[0]{client}->run_until('clients read', sub { read_client($_) for @states; time > $until });
        push @resumed, map { { %$_, had => { %{ $_->{had} } } } } @states;
    }
    my %closed = map { $_ => $states{$_}{client}{closed} } keys %states;
    check_rows($what, $plan->{min_replicas}, (grep { !$closed{ $_->{user} } } @states), grep { !$_->{client}{closed} } @immediate);
    my @again = map { my $state = $_; (resume($state, $first, 'the first relay'), resume($state, $second, 'the second relay')) }
      (shuffle @resumed)[ 0 .. 3 ], grep { $closed{ $_->{user} } } @states;
    check_rows($what, $plan->{min_replicas}, @again);
    $_->{client}->close for @again, @immediate, @states;
    return;
}

# The first run of a setup is a primary that wakes before a paused relay, after its replica has delivered rows.
sub schedule
{
    my ($store, $shards, $min_replicas, $is_first) = @_;
    my %plan = (min_replicas => $min_replicas, asleep => $is_first || rand() < 0.6, order => [qw(primary relay)], before_relay => $is_first ? 0.9 : 0.2 + rand 1.2,
        between => $is_first ? 0.3 : rand 0.4);
    return \%plan if $is_first;
    $plan{early}     = 0.8 + rand 3 if rand() < 0.3;
    $plan{own}       = 1 if $shards > 1 && rand() < 0.4;
    $plan{separated} = 1 if $store->{network} && rand() < 0.3;
    @{ $plan{order} } = reverse @{ $plan{order} } if rand() < 0.4;
    $plan{between}   = 0 if rand() < 0.3;
    return \%plan;
}

my $slots = 0;
my $run = 0;
for my $i (0 .. $#SETUPS)
{
    my ($kind, $shards, $min_replicas) = split m{/}, $SETUPS[$i];
    my $runs  = int($RUNS * ($i + 1) / @SETUPS) - int($RUNS * $i / @SETUPS) or next;
    my $store = start_store($kind, $shards, $runs > 2);
    my %conf  = ('store.min_replicas' => $min_replicas, 'store.shards' => $shards, 'feed.slot' => 'slot' . ++$slots,
        'delivery.ack_timeout' => '300ms', 'delivery.backoff_base' => '10ms', 'delivery.backoff_cap' => '10ms');
    my %world = (store => $store);
    $world{$_} = Clairon::Test::relay($pg, $store, conf => \%conf) for qw(first second);
    my @holders = ((map { $world{first}->client($_) } qw(h1 u1)), (map { $world{second}->client($_) } qw(h2 u2)));
    $pg->safe_psql('postgres', q{INSERT INTO held (team) SELECT 't' FROM generate_series(1, 20);
        INSERT INTO held_own (owner) SELECT 'u' || 1 + i % 2 FROM generate_series(1, 20) i});
    for my $holder (@holders)
    {
        $holder->run_until('notifications are retried', sub { grep { $_->{routing}{retry}{attempts} > 1 } $holder->notifications });
    }
    for my $nth (1 .. $runs)
    {
        my $plan = schedule($store, $shards, $min_replicas, $nth == 1);
        my $what = sprintf 'run %d, %s', ++$run, $SETUPS[$i];
        note join ' ', $what, map { "$_=" . (ref $plan->{$_} ? join('+', @{ $plan->{$_} }) : sprintf '%.3g', $plan->{$_}) } sort keys %$plan;
        run_once(\%world, $what, $plan);
        heal($store) if $nth < $runs;
    }
    $_->close for grep { !$_->{closed} } @holders;
    $_->stop for @world{qw(second first)};
    $store->end;
    $store->{network}->end if $store->{network};
    $pg->safe_psql('postgres', "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots");
}

done_testing();
