# Tests that the number of counters of warnings is limited: the warnings of further rules share one.
use strict;
use warnings;

use Clairon::Test;
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;

my $COUNTERS = 10_000;
my $RULES    = 4000;

my $pg = Clairon::Test::postgresql('main', conf => 'autovacuum = off');

sub sql { return $pg->safe_psql('postgres', $_[0]) }

for my $table (1 .. 3)
{
    sql(qq{CREATE TABLE t$table (id int, who text); SELECT clairon.watch('t$table', 'USER', 'who');
        INSERT INTO clairon.rule SELECT (jsonb_populate_record(rule, jsonb_build_object('name', 'r' || i))).*
            FROM clairon.rule, generate_series(2, $RULES) AS i WHERE relation = 't$table'::regclass;
        ALTER TABLE t$table DROP who});
}
sql(q{SELECT pg_create_logical_replication_slot('slot', 'clairon')});
sql(q{INSERT INTO t1 VALUES (1); INSERT INTO t2 VALUES (1); INSERT INTO t3 VALUES (1)});
sql(q{SET client_min_messages = error; SELECT count(*) FROM pg_logical_slot_get_changes('slot', NULL, NULL, 'owner_time', '1000s')});
my @warnings = slurp_file($pg->logfile) =~ /WARNING:  clairon rule "[^"]*"[^\n]*: denied: [^\n]*\n[^\n]*applies to (\d+) change/g;
my $others = 3 * $RULES - $COUNTERS;
is(scalar @warnings, $COUNTERS + length($others), "of @{[ 3 * $RULES ]} rules without target $COUNTERS are logged, and the others at powers of ten");
is($warnings[-1], 10**(length($others) - 1), 'they share a counter');
done_testing();
