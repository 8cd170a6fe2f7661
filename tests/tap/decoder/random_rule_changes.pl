# Tests that random changes of rules, tables and ancestors in concurrent transactions apply to each row as of its WAL
# position. The rows are decoded in one session, which reads only rules that have changed, and in one session per
# transaction, which reads all rules.
#
# CLAIRON_RULES_SEED (a number or "random") and CLAIRON_RULES_STEPS (1500; 12000 in the long form) set the workload.
use strict;
use warnings;

use Clairon::Test qw(amount);
use JSON ();
use List::Util qw(first);
use Storable qw(dclone);
use Test::More;

my $seed = $ENV{CLAIRON_RULES_SEED} // 20261129;
$seed = int rand 2**31 if $seed eq 'random';
my $steps = $ENV{CLAIRON_RULES_STEPS} // amount(800, 12_000);
diag("CLAIRON_RULES_SEED=$seed CLAIRON_RULES_STEPS=$steps");
srand $seed;

my $SESSIONS = 4;
my @options  = map { "'$_'" } 'owner_time', '1000s', 'owner_bytes', '1000MB';

my $pg = Clairon::Test::postgresql('main', conf => "autovacuum = off\nsynchronous_commit = off");

sub sql { return $pg->safe_psql('postgres', $_[0]) }

sub pick { return $_[ int rand @_ ] }

# ---- the model: tables with their rules, as transactions see them

# Each table may have these parents.
my %may_inherit = (a => ['top'], b => ['top'], c1 => [ 'a', 'b' ], c2 => [ 'a', 'b' ], c3 => ['a'], leaf1 => ['root'], leaf2 => ['root']);
my @tables      = ('top', 'alone1', 'alone2', 'root', sort keys %may_inherit);
my %key         = (leaf1 => 1, leaf2 => 2);

my $committed = { map { $_ => { rules => {}, parents => {}, name => 'v' } } @tables };

sub columns { return 'k int, n int, v text' }

# Returns the table and its ancestors.
sub family
{
    my ($state, $table) = @_;
    my %family = ($table => 1);
    my @left   = ($table);
    while (defined(my $next = shift @left))
    {
        push @left, grep { !$family{$_}++ } keys %{ $state->{$next}{parents} };
    }
    return sort keys %family;
}

sub descendants
{
    my ($state, $table) = @_;
    return grep {
        my $other = $_;
        first { $_ eq $table } family($state, $other)
    } @tables;
}

# ---- the sessions

my @sessions = map { { psql => $pg->background_psql('postgres', on_error_stop => 0), open => 0, done => [], sent => [], savepoints => [] } } 1 .. $SESSIONS;
my @expected;    # the notifications in commit order
my ($next_row, $next_tag, %count) = (0, 0);

# Returns the state that the session sees.
sub view
{
    my ($session) = @_;
    my $state = dclone($committed);
    $_->($state) for @{ $session->{done} };
    return $state;
}

# Returns true if the command succeeds.
sub execute
{
    my ($session, $sql) = @_;
    my $output = $session->{psql}->query("$sql;\n\\echo error :ERROR");
    $session->{psql}{stderr} = '';
    return $output !~ /error true/;
}

sub end_transaction
{
    my ($session, $command) = @_;
    my $done = execute($session, $command);
    if ($done && $command eq 'COMMIT')
    {
        $_->($committed) for @{ $session->{done} };
        push @expected, @{ $session->{sent} };
    }
    @$session{ 'open', 'done', 'sent', 'savepoints' } = (0, [], [], []);
    return;
}

sub roll_back_to_savepoint
{
    my ($session) = @_;
    my ($done, $sent) = @{ $session->{savepoints}[-1] };
    execute($session, "ROLLBACK TO s@{[ scalar @{ $session->{savepoints} } ]}") or die "ROLLBACK TO failed; CLAIRON_RULES_SEED=$seed";
    splice @{ $session->{done} }, $done;
    splice @{ $session->{sent} }, $sent;
    return;
}

# Executes the command, and applies the change of the state. After an error the transaction or savepoint is rolled back.
sub change
{
    my ($session, $sql, $change, @sent) = @_;
    my $done = execute($session, $sql);
    my ($kind) = $sql =~ /^(\w+(?: \w+)?)/;
    $count{ $done ? $kind : 'failed' }++;
    if ($done && $session->{open})
    {
        push @{ $session->{done} }, $change;
        push @{ $session->{sent} }, @sent;
    }
    elsif ($done)
    {
        $change->($committed);
        push @expected, @sent;
    }
    elsif (@{ $session->{savepoints} }) { roll_back_to_savepoint($session) }
    elsif ($session->{open})            { end_transaction($session, 'ROLLBACK') }
    return;
}

# ---- the steps

sub insert
{
    my ($session, $rows) = @_;
    my $state = view($session);
    my $table = pick(grep { $_ ne 'root' } @tables);
    my @tags  = sort map { values %{ $state->{$_}{rules} } } family($state, $table);
    my $first = $next_row + 1;
    $next_row += $rows;
    my $value = $rows > 1 ? q{repeat('u', 100)} : q{'u'};
    change($session, "INSERT INTO $table (k, n, $state->{$table}{name}) SELECT @{[ $key{$table} // 0 ]}, n, $value FROM generate_series($first, $next_row) AS n",
        sub { }, map { my $row = $_; map { "$row $_" } @tags } $first .. $next_row);
    return;
}

my @steps = (
    [ 40, sub { insert($_[0], 1) } ],
    [ 1,  sub { insert($_[0], 700) } ],
    [ 14, sub {
        my ($session) = @_;
        my ($table, $rule, $tag) = (pick(@tables), 'r' . pick(1 .. 3), 'tag' . ++$next_tag);
        my $targets = pick('=u', view($session)->{$table}{name});
        change($session, "SELECT clairon.watch('$table', 'USER', '$targets', name => '$rule', emitter => '$tag')",
            sub { $_[0]{$table}{rules}{$rule} = $tag });
    } ],
    [ 6, sub {
        my ($session) = @_;
        my ($table, $rule) = (pick(@tables), pick('r1', 'r2', 'r3', undef));
        change($session, "SELECT clairon.unwatch('$table'" . ($rule ? ", '$rule')" : ')'),
            sub { delete @{ $_[0]{$table}{rules} }{ $rule // keys %{ $_[0]{$table}{rules} } } });
    } ],
    [ 5, sub {
        my ($session) = @_;
        my ($table, $rule, $tag) = (pick(@tables), 'r' . pick(1 .. 3), 'tag' . ++$next_tag);
        change($session, "UPDATE clairon.rule SET emitter = '$tag' WHERE relation = '$table'::regclass AND name = '$rule'",
            sub { $_[0]{$table}{rules}{$rule} = $tag if $_[0]{$table}{rules}{$rule} });
    } ],
    [ 3, sub {
        my ($session) = @_;
        my ($table, $other, $rule) = (pick(@tables), pick(@tables), 'r' . pick(1 .. 3));
        change($session, "UPDATE clairon.rule SET relation = '$other'::regclass, target_column = NULL, target_list = '{u}'
                WHERE relation = '$table'::regclass AND name = '$rule'",
            sub { my $tag = delete $_[0]{$table}{rules}{$rule}; $_[0]{$other}{rules}{$rule} = $tag if $tag });
    } ],
    [ 8, sub {
        my ($session) = @_;
        my $table  = pick(sort keys %may_inherit);
        my $parent = pick(@{ $may_inherit{$table} });
        my $is     = view($session)->{$table}{parents}{$parent};
        my $sql    = $key{$table}
            ? "ALTER TABLE $parent " . ($is ? "DETACH PARTITION $table" : "ATTACH PARTITION $table FOR VALUES IN ($key{$table})")
            : "ALTER TABLE $table " . ($is ? 'NO ' : '') . "INHERIT $parent";
        change($session, $sql, sub { $is ? delete $_[0]{$table}{parents}{$parent} : ($_[0]{$table}{parents}{$parent} = 1) });
    } ],
    [ 4, sub {
        my ($session) = @_;
        my $state = view($session);
        my $table = pick(@tables);
        my $name  = $state->{$table}{name} eq 'v' ? 'w' : 'v';
        my @all   = descendants($state, $table);
        change($session, "ALTER TABLE $table RENAME $state->{$table}{name} TO $name", sub { $_[0]{$_}{name} = $name for @all });
    } ],
    [ 4, sub { change($_[0], 'ALTER TABLE ' . pick(@tables) . pick(' ADD x int DEFAULT 5', ' DROP x'), sub { }) } ],
    [ 3, sub { change($_[0], 'ALTER TABLE ' . pick(@tables) . ' OWNER TO ' . pick('postgres', 'other'), sub { }) } ],
    [ 3, sub {
        my ($session) = @_;
        my $table = pick('alone1', 'alone2');
        change($session, "DROP TABLE $table",                        sub { delete $_[0]{$table}{name}; $_[0]{$table}{rules} = {} });
        return if view($session)->{$table}{name};
        change($session, "CREATE TABLE $table (@{[ columns() ]})", sub { $_[0]{$table}{name} = 'v' });
    } ],
    [ 12, sub {
        my ($session) = @_;
        return end_transaction($session, pick('COMMIT', 'COMMIT', 'COMMIT', 'ROLLBACK')) if $session->{open};
        execute($session, 'BEGIN');
        $session->{open} = 1;
    } ],
    [ 8, sub {
        my ($session) = @_;
        my $savepoints = $session->{savepoints};
        return if !$session->{open};
        return roll_back_to_savepoint($session) if @$savepoints && pick(0, 1);
        if (@$savepoints && pick(0, 1))
        {
            execute($session, 'RELEASE s' . @$savepoints);
            pop @$savepoints;
            return;
        }
        push @$savepoints, [ scalar @{ $session->{done} }, scalar @{ $session->{sent} } ];
        execute($session, 'SAVEPOINT s' . @$savepoints);
    } ],
    [ 1, sub { sql('CHECKPOINT') } ],
);
my @weighted = map { my ($weight, $step) = @$_; ($step) x $weight } @steps;

sql(join ";\n", 'CREATE ROLE other; GRANT CREATE, USAGE ON SCHEMA public TO other',
    map { "CREATE TABLE $_ (@{[ columns() ]})" . ($_ eq 'root' ? ' PARTITION BY LIST (k)' : '') } @tables);
my @slots = ('whole', 'streamed', 'steps', 'framed', 'framed_steps');
sql("SELECT pg_create_logical_replication_slot('$_', 'clairon')") for @slots;
$_->{psql}->query_safe(q{SET client_min_messages = error; SET lock_timeout = '20ms'}) for @sessions;
for (1 .. $steps)
{
    my $session = pick(@sessions);
    pick(@weighted)->($session);
    # A session that did not create its table again.
    for my $table (grep { !view($session)->{$_}{name} } 'alone1', 'alone2')
    {
        change($session, "CREATE TABLE $table (@{[ columns() ]})", sub { $_[0]{$table}{name} = 'v' });
    }
}
end_transaction($_, 'COMMIT') for grep { $_->{open} } @sessions;
$_->{psql}->quit for @sessions;
note(join ', ', map { "$count{$_} x $_" } sort keys %count);
sql('CHECKPOINT'); # decoding ends where WAL is flushed

# ---- decode

sub changes
{
    my ($slot, $limit, @more) = @_;
    return "SELECT data FROM pg_logical_slot_get_changes('$slot', NULL, $limit, " . join(', ', @options, @more) . ')' if $slot !~ /framed/;
    return "SELECT encode(data, 'hex') FROM pg_logical_slot_get_binary_changes('$slot', NULL, $limit, " . join(', ', @options, q{'mode', 'framed'}) . ')';
}

# Reads each transaction with output in a separate session.
sub in_steps
{
    my ($slot) = @_;
    my ($sessions, @all) = (0);
    while (my @lines = split /\n/, sql(changes($slot, 1)))
    {
        $sessions++;
        push @all, @lines;
    }
    cmp_ok($sessions, '>', $steps / 30, "$slot: many sessions have read the slot");
    return @all;
}

# Compares the lines, and reports the first difference.
sub compare
{
    my ($what, $got, $should) = @_;
    my $at = first { ($got->[$_] // '') ne ($should->[$_] // '') } 0 .. ($#$got > $#$should ? $#$got : $#$should);
    ok(!defined $at, $what) or diag("CLAIRON_RULES_SEED=$seed, line $at: " . ($got->[$at] // 'none') . "\nexpected: " . ($should->[$at] // 'none'));
    return;
}

# Sorts the notifications of each row.
sub by_row
{
    my ($at, $row, %order) = (0, '');
    for (@_)
    {
        my ($next) = split ' ';
        $order{$_} = $at += $next ne $row;
        $row = $next;
    }
    return sort { $order{$a} <=> $order{$b} || $a cmp $b } @_;
}

my @whole = split /\n/, sql(changes('whole', 'NULL'));
my @got   = by_row(map { my $n = JSON::decode_json($_); "$n->{payload}{after}{n} $n->{metadata}{emitter}" } @whole);
compare('each row is sent by the rules of its WAL position', \@got, \@expected);
compare('a streamed read is the same', [ split /\n/, sql("SET logical_decoding_work_mem = '64kB'; " . changes('streamed', 'NULL')) ], \@whole);
compare('a read in many sessions is the same', [ in_steps('steps') ], \@whole);
compare('a framed read in many sessions is the same', [ join '', in_steps('framed_steps') ], [ join '', split /\n/, sql(changes('framed', 'NULL')) ]);
cmp_ok(scalar @whole, '>', $steps / 5, 'many rows are sent');
done_testing();
