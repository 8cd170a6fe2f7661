# Tests that the memory of prepared conditions is limited per owner, and that reaching the limit does not affect other
# owners.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

my $pg = Clairon::Test::postgresql('main', conf => 'autovacuum = off');
my $connection = $pg->connstr('postgres');

sub sql { return $pg->safe_psql('postgres', $_[0]) }

# A condition that is true for each row; each of its 9000 calls is prepared separately.
my $condition = join ' AND ', ('length(' . join(' || ', ('s') x 181) . ') = 181') x 50;

sub make_table
{
    my ($role, $table, $rules, $only_when) = @_;
    sql(qq{SET ROLE $role; CREATE TABLE own.$table (id int PRIMARY KEY, s text);
        SELECT clairon.watch('own.$table', 'USER', '=u', name => 'rule' || i, only_when => '$only_when')
        FROM generate_series(1, $rules) AS i});
    return;
}

# Returns the log text since the last call.
my $mark = 0;
sub new_log
{
    open my $log, '<', $pg->logfile or die $!;
    seek $log, $mark, 0;
    my $text = join '', <$log>;
    $mark += length $text;
    return $text;
}

# Inserts a row into each table, and then into `last`. Returns the number of notifications of each table that arrive
# before the notification of `last`.
my ($out, $ids) = (undef, 0);
sub deliver
{
    sql("INSERT INTO own.$_ VALUES (" . ++$ids . ", 'a')") for @_, 'last';
    my %count;
    while (my $line = <$out>)
    {
        my ($table) = $line =~ /"source":"own\.(\w+)"/ or next;
        return \%count if $table eq 'last';
        $count{$table}++;
    }
    die 'the walsender ended';
}

# Returns the peak memory of the walsender in kB.
sub peak
{
    my $walsender = sql(q{SELECT active_pid FROM pg_replication_slots WHERE slot_name = 'slot'});
    open my $status, '<', "/proc/$walsender/status" or die $!;
    my ($peak) = join('', <$status>) =~ /^VmHWM:\s+(\d+)/m;
    return $peak;
}

sql(q{CREATE ROLE tenant IN ROLE clairon_app; CREATE ROLE neighbour IN ROLE clairon_app;
    CREATE SCHEMA own; GRANT CREATE, USAGE ON SCHEMA own TO tenant, neighbour});
make_table('neighbour', 'near', 2, 'length(s) = 1');
make_table('neighbour', 'last', 1, 'length(s) = 1');
make_table('tenant', $_, 3, $condition) for qw(a b c d e f);
make_table('tenant', 'large', 10, $condition);
sql(q{SELECT pg_create_logical_replication_slot('slot', 'clairon')});

my $reader = open $out, '-|', 'pg_recvlogical', '-d', $connection, '--slot', 'slot', '--start', '--no-loop',
    '-f', '-', '-o', 'condition_timeout=60s', '-o', 'owner_time=600s'
    or die "pg_recvlogical: $!";

my $count = deliver(qw(a near b c d near e f a b near));
is_deeply($count, { a => 6, b => 6, c => 3, d => 3, e => 3, f => 3, near => 6 },
    'conditions of many tables are evicted and prepared again');
cmp_ok(peak(), '<', 200_000, 'the walsender needs less than 200 MB');
unlike(new_log(), qr/denied|out of memory/, 'no condition is denied');

$count = deliver(qw(near a large near large a));
is($count->{near}, 4, 'rules of another owner deliver notifications');
is($count->{a}, 6, 'rules on other tables of the owner deliver notifications');
cmp_ok($count->{large}, '<', 20,
    'for a table whose conditions exceed the limit, some rules are denied');
cmp_ok($count->{large}, '>', 4, 'rules with conditions within the limit deliver notifications');
like(new_log(), qr/rule "rule\d+" on "own\.large": denied[^\n]*\n[^\n]*conditions of the table's owner exceed 64 MB/,
    'the other conditions are denied with a logged reason');
cmp_ok(peak(), '<', 250_000, 'the walsender needs less memory than its base plus the limit');
kill 'INT', $reader;
close $out;
done_testing();
