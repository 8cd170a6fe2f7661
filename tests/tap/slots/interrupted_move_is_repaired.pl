# Tests that relays keep running while an interrupted move of a slot is repaired with `redis-cli --cluster fix`, which
# assigns the slot to one node before it moves the other keys there: no notification or acknowledgement is lost,
# duplicated or reordered, no client receives a gap, and no membership is misread.
use strict;
use warnings;

use Clairon::Test qw(wait_until wait_confirmed scratch);
use IPC::Run ();
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;
use Time::HiRes qw(time);

my $SHARDS   = 4;
my $FILLERS  = 5000;    # keys, so that redis-cli needs some time
my $CHANCE_S = 3;       # after which a relay that has written nothing is considered waiting
my @USERS    = map { "u$_" } 1 .. 5;
my $OUTSIDER = 'u5';    # never a member of the team
my $REMAINS  = 'u4';    # always a member
my $SEVERAL  = qr/keys .*on several nodes/;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE one (id int PRIMARY KEY, owner text);
    CREATE TABLE many (id int PRIMARY KEY, team text, members text);
    INSERT INTO clairon.member SELECT 'TEAM', 't1', 'u' || i FROM generate_series(1, 4) i;
    SELECT clairon.watch('one', 'USER', 'owner', ack_required => true);
    SELECT clairon.watch('many', 'TEAM', 'team', ack_required => true)});
my $cluster = Clairon::Test::store_cluster(shards => $SHARDS, replicas => 0);
my %conf    = ('store.min_replicas' => 0, 'delivery.ack_timeout' => '1h', 'gate.ping' => '1h');
my $relay   = Clairon::Test::relay($pg, $cluster, conf => {%conf});
my $second  = Clairon::Test::relay($pg, $cluster, conf => {%conf});
my %clients = map { $USERS[$_] => ($_ % 2 ? $second : $relay)->client($USERS[$_]) } 0 .. $#USERS;
my $is_silent;
my $last = 0;

# Each transaction inserts rows for all users and one row for the team, whose members change.
sub insert
{
    for (1 .. $_[0])
    {
        my ($from, $to) = ($last + 1, $last += 5);
        my $user = 'u' . (1 + $to / 5 % 3);    # u4 remains a member
        $pg->safe_psql('postgres', "BEGIN; INSERT INTO clairon.member VALUES ('TEAM', 't1', '$user') ON CONFLICT DO NOTHING; COMMIT")
          if $to % 2;
        $pg->safe_psql('postgres', "BEGIN; DELETE FROM clairon.member WHERE target = 't1' AND user_id = '$user'; COMMIT") if $to % 2 == 0;
        $pg->safe_psql('postgres', "BEGIN; INSERT INTO one SELECT i, 'u' || 1 + i % 5 FROM generate_series($from, $to) i;"
          . "INSERT INTO many SELECT $to, 't1', string_agg(user_id, ' ' ORDER BY user_id) FROM clairon.member WHERE target = 't1'; COMMIT");
    }
    return;
}

sub rows_of
{
    my ($user) = @_;
    return split /\n/, $pg->safe_psql('postgres', qq{
        SELECT name FROM (SELECT 'one ' || id AS name, id, 1 AS part FROM one WHERE owner = '$user'
            UNION ALL SELECT 'many ' || id, id, 2 FROM many WHERE '$user' = ANY (string_to_array(members, ' '))) all_rows ORDER BY id, part});
}

sub received { my ($user) = @_; return map { "$_->{metadata}{source} $_->{payload}{after}{id}" } $clients{$user}->notifications }

# Polls a condition while all clients receive notifications, and acknowledge them unless $is_silent is set.
sub run_until
{
    my ($what, $condition) = @_;
    return $clients{u1}->run_until($what, sub { $is_silent or $_->ack_received for values %clients; $condition->() });
}

# A notification for the team is delivered to the members at the time of sending, so a user who left and joined again
# may receive it later, and a user who joined after the commit may receive it too.
sub check_received
{
    my ($when) = @_;
    $pg->safe_psql('postgres', q{INSERT INTO clairon.member SELECT 'TEAM', 't1', 'u' || i FROM generate_series(1, 3) i ON CONFLICT DO NOTHING});
    for my $user (@USERS)
    {
        my @expected = rows_of($user);
        my $is_complete = eval { run_until("$when: $user receives its rows", sub { my %had = map { $_ => 1 } received($user); !grep { !$had{$_} } @expected }) };
        ok($is_complete, "$when: $user receives all rows") or diag $@;
        my %count;
        $count{$_}++ for received($user);
        is(join(' ', grep { $count{$_} > 1 } sort keys %count), '', "$when: $user receives each row once");
        # While a shard waits, rows of other shards overtake its rows.
        for my $table ('one', $user eq $REMAINS || $user eq $OUTSIDER ? 'many' : ())
        {
            is_deeply([ grep { /^$table / } received($user) ], [ grep { /^$table / } @expected ], "$when: $user receives the rows of $table in order");
        }
    }
    return;
}

sub check_stored
{
    my ($when) = @_;
    eval { run_until("$when: all acknowledgements are stored", sub { $cluster->pending == 0 }) };
    is($cluster->pending, 0, "$when: all acknowledgements are stored");
    my @entries = $cluster->entries;
    my @rows = map { $_->{data} =~ /"source":"(\w+)".*"after":\{"id":(\d+)/ ? "$1 $2" : 'none' } @entries;
    is_deeply([ sort @rows ], [ sort split /\n/, $pg->safe_psql('postgres', q{SELECT 'one ' || id FROM one UNION ALL SELECT 'many ' || id FROM many}) ],
        "$when: each row is stored once");
    my %is = map { $_->{data} =~ /"source":"many".*"after":\{"id":(\d+)/ ? ($1 => join ' ', $cluster->audience_of($_)) : () } @entries;
    my %expected = split /[|\n]/, $pg->safe_psql('postgres', 'SELECT id, members FROM many');
    return is_deeply(\%is, \%expected, "$when: each audience has the members at the commit");
}

sub epochs { return join ' ', map { $cluster->execute('HGET', $_, 'epoch') // 'none' } $cluster->keys('meta') }
sub keys_on { my ($node, $shard) = @_; return $node->execute('CLUSTER', 'COUNTKEYSINSLOT', $cluster->slot($shard)) }

sub add_fillers
{
    my ($node, $shard, $from, $to) = @_;
    return $node->execute('EVAL', q{for i = ARGV[1], ARGV[2] do redis.call('SET', KEYS[1] .. i, i) end}, 1, "clairon:{$shard}:filler:", $from, $to);
}

# Begins a move, and moves those keys of the shard. The shard then waits.
sub interrupt_move
{
    my ($shard, $which, $fillers) = @_;
    my $from = $cluster->primary_of($shard);
    my ($to) = grep { $_ != $from } $cluster->alive;
    $cluster->begin_move($shard, $to);
    cmp_ok($cluster->move_keys($shard, $from, $to, 0, $which), '>', 0, "shard $shard: keys have moved:$which");
    # These keys return first.
    $cluster->move_keys($shard, $from, $to, 0, $fillers) if $fillers;
    my ($owner, $other) = keys_on($from, $shard) >= keys_on($to, $shard) ? ($from, $to) : ($to, $from);
    return ($owner, $other, $from);
}

# Runs the first commands of redis-cli --cluster fix for this slot: the node with most keys owns it, without the keys of
# the other node.
sub assign_slot
{
    my ($shard, $owner, $other) = @_;
    my $slot = $cluster->slot($shard);
    $owner->execute('CLUSTER', 'SETSLOT', $slot, 'STABLE');
    # A node that still is the owner when it learns of another owner deletes the keys.
    eval { $other->execute('CLUSTER', 'DELSLOTS', $slot) };
    eval { $owner->execute('CLUSTER', 'DELSLOTS', $slot) };
    $owner->execute('CLUSTER', 'ADDSLOTS', $slot);
    $owner->execute('CLUSTER', 'BUMPEPOCH');
    $other->execute('CLUSTER', 'SETSLOT', $slot, 'NODE', $owner->{id});
    $other->execute('CLUSTER', 'SETSLOT', $slot, 'IMPORTING', $owner->{id});
    return;
}

# Runs its last commands.
sub reunite_keys
{
    my ($shard, $owner, $other) = @_;
    my $slot = $cluster->slot($shard);
    my $is_complete = eval { 1 while $cluster->move_keys($shard, $other, $owner, 10); 1 };
    ok($is_complete, "shard $shard: its keys are reunited") or diag $@;
    $other->execute('CLUSTER', 'SETSLOT', $slot, 'STABLE');
    $_->execute('CLUSTER', 'SETSLOT', $slot, 'NODE', $owner->{id}) for grep { $_ != $owner } $cluster->alive;
    return;
}

# Waits until a relay has had the chance to use the slot of its new owner.
sub wait_chance
{
    my ($shard, $owner) = @_;
    my ($count, $until) = (keys_on($owner, $shard), time + $CHANCE_S);
    my $length = sub { eval { $owner->execute('XLEN', "clairon:{$shard}:stream") } // 0 };
    my $stored = $length->();
    run_until('the relays wait, or use the shard', sub {
        return time > $until || keys_on($owner, $shard) != $count || $length->() != $stored
          || 2 == grep { $_->log_text($_->{mark}) =~ $SEVERAL } $relay, $second });
    return;
}

sub fix_by_hand
{
    my ($when, $shard, $owner, $other) = @_;
    assign_slot($shard, $owner, $other);
    wait_chance($shard, $owner);
    insert(2);
    reunite_keys($shard, $owner, $other);
    return;
}

sub cli
{
    my @folders = split /:/, $ENV{PATH};
    my ($found) = grep { -x } $ENV{STORE_SERVER} =~ s/server$/cli/r, map { my $name = $_; map { "$_/$name" } @folders } qw(redis-cli valkey-cli keydb-cli);
    return $found;
}

# Completes the move, with the commands of docker/CLUSTER.md.
sub complete_by_hand
{
    my ($when, $shard, $target, $source) = @_;
    my ($commands) = slurp_file(Clairon::Test::top() . '/docker/CLUSTER.md') =~ /^(  \$CLI -h SOURCE cluster getkeysinslot.*?)^  ```/ms or die 'no commands in the page';
    my ($slot, $cli) = ($cluster->slot($shard), cli());
    my %is = (SOURCE => "127.0.0.1 -p $source->{port}", TARGET => "127.0.0.1 -p $target->{port}", SLOT => $slot, 'TARGET-ID' => $target->{id});
    $commands =~ s/migrate TARGET 6379/migrate 127.0.0.1 $target->{port}/;
    $commands =~ s/\$CLI/$cli/g;
    $commands =~ s/(TARGET-ID|SOURCE|TARGET|SLOT)\b/$is{$1}/g;
    my ($output, $ended) = (scratch() . '/complete');
    my $run = IPC::Run::start([ 'sh', '-c', "$commands\necho ended" ], '>', $output, '2>&1');
    run_until("$when: the commands end", sub { insert(1) if rand() < 0.1; slurp_file($output) =~ /^ended$/m });
    eval { $run->finish };
    return unlike(slurp_file($output), qr/ERR|BUSYKEY/, "$when: the commands succeed");
}

sub fix_by_cli
{
    my ($when, $shard, $owner) = @_;
    my ($output, $cli) = (scratch() . '/fix-' . $when =~ s/\W+/-/gr, cli());
    my $fix = IPC::Run::start([ 'sh', '-c', "echo yes | '$cli' --cluster fix 127.0.0.1:$owner->{port} --cluster-pipeline 1; echo ended" ], '>', $output, '2>&1');
    eval { run_until("$when: redis-cli ends", sub { insert(1) if rand() < 0.1; slurp_file($output) =~ /ended$/m }) } or diag slurp_file($output);
    eval { $fix->finish };
    my $text = slurp_file($output);
    unlike($text, qr/ERR|BUSYKEY|value/i, "$when: redis-cli repairs the slot") or diag $text;
    return note $text =~ /(.*Found keys.*)/ ? $1 : '';
}

# ---- cases: shard, keys that have left the source, repair

insert(5);
check_received('initially');
check_stored('initially');
my $epochs = epochs();
my ($user) = map { $cluster->shard_of($_) } 'u1';

my @cases = (
    [ 'stream and meta of the shared shard moved', 0, qr/:(stream|meta)$/, \&fix_by_hand, 'source' ],
    [ 'memberships moved', 0, qr/:(members|groups)/, \&fix_by_hand, 'source' ],
    [ 'pending acknowledgements moved', $user, qr/:(pending|due|ack:)/, \&fix_by_hand, 'source' ],
    [ 'all but the stream of a user shard moved', $user, qr/}:(?!stream)/, \&fix_by_hand, 'target' ],
);
push @cases, (
    [ 'stream and meta of a user shard moved, redis-cli', $user, qr/:(stream|meta)$/, \&fix_by_cli, 'source' ],
    [ 'all but the stream of the shared shard moved, completed by hand', 0, qr/}:(?!stream)/, \&complete_by_hand, 'target' ]) if cli();
for my $case (@cases)
{
    my ($when, $shard, $which, $fix, $expected) = @$case;
    my $begin = time;
    $is_silent = 1;
    insert(3);
    run_until("$when: rows arrive before the move", sub { !grep { received($_) < rows_of($_) } @USERS });
    cmp_ok($cluster->pending, '>', 0, "$when: acknowledgements are pending");
    # Fillers make the source or the target the node with most keys, and delay redis-cli.
    my ($fillers, $move) = $fix != \&fix_by_cli ? (100, undef) : ($FILLERS, $expected eq 'source' ? qr/filler:\d*[4-7]$/ : qr/filler:\d*[0-6]$/);
    add_fillers($cluster->primary_of($shard), $shard, 1, $fillers);
    $_->{mark} = $_->log_mark for $relay, $second;
    my ($owner, $other, $source) = interrupt_move($shard, $which, $move);
    is($owner == $source ? 'source' : 'target', $expected, "$when: the $expected has most keys");
    $is_silent = 0;
    insert(3);    # the feed and acknowledgements meet the moving slot
    run_until("$when: both relays wait for the shard", sub { 2 == grep { $_->log_text($_->{mark}) =~ /(error|reason)="(TRYAGAIN|[A-Z]+ \d+) |$SEVERAL/ } $relay, $second });
    $fix->($when, $shard, $owner, $other);
    last unless Test::More->builder->is_passing;
    insert(3);
    $cluster->wait_agreed;
    check_received($when);
    check_stored($when);
    is(epochs(), $epochs, "$when: no epoch changes");
    # A user who leaves the team while notifications wait in the pending list receives a gap (`shed`).
    my @gaps = map { my $user = $_; map { "$user $_" } grep { $user =~ /^u[45]$/ || $_ ne 'shed' } split / /, $clients{$user}->gaps } @USERS;
    is("@gaps", '', "$when: no client receives a gap");
    my $new = $second->client($OUTSIDER, pos => $clients{$OUTSIDER}->pos);
    ok($new->wait_for('connected')->{resumed}, "$when: a new session of a user without a team resumes");
    $new->close;
    note sprintf '%s: %.1f s', $when, time - $begin;
    last unless Test::More->builder->is_passing;    # the next cases would fail too
}

wait_confirmed($pg);
pass('the slot advances');
is(scalar(grep { $_->{closed} } values %clients), 0, 'no client lost its connection');
unlike($_->log_text, qr/level=error/, 'repairs cause no error') for $relay, $second;

done_testing();
