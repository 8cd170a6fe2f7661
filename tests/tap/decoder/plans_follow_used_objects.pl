# Tests that plans and conditions that remain prepared over catalog changes are prepared again when an object that they use
# changes. A session that decodes everything is compared with a new session for each transaction.
use strict;
use warnings;

use Clairon::Test;
use JSON ();
use Test::More;

my $pg = Clairon::Test::postgresql('main', conf => 'autovacuum = off');

sub sql { return $pg->safe_psql('postgres', $_[0]) }

sql(q{CREATE ROLE alice IN ROLE clairon_app; GRANT CREATE ON DATABASE postgres TO alice; CREATE SCHEMA own AUTHORIZATION alice; CREATE SCHEMA lib AUTHORIZATION alice;
    CREATE FUNCTION lib.test(int, int) RETURNS boolean IMMUTABLE LANGUAGE internal AS 'int4lt';
    CREATE FUNCTION lib.defaults(int, int DEFAULT 100) RETURNS boolean IMMUTABLE LANGUAGE internal AS 'int4lt';
    ALTER FUNCTION lib.test(int, int) OWNER TO alice; ALTER FUNCTION lib.defaults(int, int) OWNER TO alice;
    SET ROLE alice; SET client_min_messages = error;
    CREATE TYPE lib.state AS ENUM ('a', 'b'); CREATE TYPE lib.other AS ENUM ('a', 'b');
    CREATE TYPE lib.pair AS (x int, y lib.state);
    CREATE TYPE lib.states AS RANGE (SUBTYPE = lib.state);
    CREATE COLLATION lib.sorted FROM "C";
    CREATE OPERATOR lib.### (FUNCTION = pg_catalog.int4lt, LEFTARG = int, RIGHTARG = int);
    CREATE TABLE own.t (id int PRIMARY KEY, n int DEFAULT 5, v text DEFAULT 'm', s lib.state DEFAULT 'b', p lib.pair DEFAULT '(1,a)',
        ps lib.pair[] DEFAULT '{"(2,b)"}', r lib.states DEFAULT '[a,b)')});
my %condition = (
    all      => undef,
    enum     => q{s = 'b'::lib.state},
    label    => q{n = 5 AND s <> 'a'::lib.state},
    order    => q{'a'::lib.other < 'b'::lib.other},
    array    => q{ARRAY[s] = '{b}'::lib.state[]},
    field    => q{(p).x = 1 AND (p).y = 'a'::lib.state},
    function => q{lib.test(n, 10)},
    default  => q{lib.defaults(n)},
    operator => q{n OPERATOR(lib.###) 10},
    any      => q{n OPERATOR(lib.###) ANY ('{10}'::int[])},
    collated => q{v COLLATE lib.sorted < 'n'},
    plain    => q{n < 10},
);
sql("SET ROLE alice; SET client_min_messages = error;\n" . join "\n", map {
    "SELECT clairon.watch('own.t', 'USER', '=u', name => '$_'" . (defined $condition{$_} ? ", only_when => \$\$ $condition{$_} \$\$" : '') . ');'
} sort keys %condition);
sql(qq{SELECT pg_create_logical_replication_slot('$_', 'clairon')}) for qw(one each);

# Changes of these objects.
my @changes = (
    'CREATE TEMP TABLE x (); DROP TABLE x',
    q{ALTER TYPE lib.state RENAME VALUE 'b' TO 'c'},
    q{ALTER TYPE lib.state RENAME VALUE 'c' TO 'b'},
    q{ALTER TYPE lib.state ADD VALUE 'z' BEFORE 'a'},
    q{ALTER TYPE lib.other RENAME TO old; CREATE TYPE lib.other AS ENUM ('b', 'a')},
    q{DROP TYPE lib.other; ALTER TYPE lib.old RENAME TO other},
    q{DROP TYPE lib.other},
    q{CREATE TYPE lib.other AS ENUM ('a', 'b')},
    q{ALTER TYPE lib.pair RENAME ATTRIBUTE x TO w},
    q{ALTER TYPE lib.pair RENAME ATTRIBUTE w TO x},
    q{ALTER TYPE lib.pair ADD ATTRIBUTE more text},
    q{RESET ROLE; CREATE OR REPLACE FUNCTION lib.test(int, int) RETURNS boolean IMMUTABLE LANGUAGE internal AS 'int4gt'},
    q{DROP FUNCTION lib.test(int, int)},
    q{RESET ROLE; CREATE FUNCTION lib.test(int, int) RETURNS boolean IMMUTABLE LANGUAGE internal AS 'int4lt'; ALTER FUNCTION lib.test(int, int) OWNER TO alice},
    q{REVOKE EXECUTE ON FUNCTION lib.test(int, int) FROM PUBLIC, alice},
    q{GRANT EXECUTE ON FUNCTION lib.test(int, int) TO alice},
    q{RESET ROLE; CREATE OR REPLACE FUNCTION lib.defaults(int, int DEFAULT 1) RETURNS boolean IMMUTABLE LANGUAGE internal AS 'int4lt'},
    q{RESET ROLE; CREATE FUNCTION lib.defaults(int) RETURNS boolean IMMUTABLE LANGUAGE internal AS 'bool_int4'},
    q{DROP OPERATOR lib.### (int, int); CREATE OPERATOR lib.### (FUNCTION = pg_catalog.int4gt, LEFTARG = int, RIGHTARG = int)},
    q{ALTER OPERATOR lib.### (int, int) SET SCHEMA own},
    q{ALTER OPERATOR own.### (int, int) SET SCHEMA lib},
    q{DROP COLLATION lib.sorted},
    q{CREATE COLLATION lib.sorted FROM "C"},
    q{ALTER SCHEMA lib RENAME TO gone},
    q{ALTER SCHEMA gone RENAME TO lib},
    q{RESET ROLE; ALTER SCHEMA lib OWNER TO CURRENT_USER; REVOKE USAGE ON SCHEMA lib FROM alice},
    q{RESET ROLE; GRANT ALL ON SCHEMA lib TO alice},
    q{RESET ROLE; REVOKE clairon_app FROM alice},
    q{RESET ROLE; GRANT clairon_app TO alice},
    q{RESET ROLE; ALTER ROLE alice SUPERUSER; REVOKE clairon_app FROM alice},
    q{RESET ROLE; ALTER ROLE alice NOSUPERUSER},
    q{RESET ROLE; GRANT clairon_app TO alice},
    q{CREATE FUNCTION lib.ignored(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 1'},
);
# Three rows for each change: after it was rolled back, in its transaction, and after it.
sub insert { return "SET ROLE alice; INSERT INTO own.t (id) VALUES ($_[0]);\n" }
sql(join '', "SET client_min_messages = error;\n", map {
    my ($change, $id) = ("SET ROLE alice; $changes[$_];\n", 3 * $_);
    'BEGIN; SAVEPOINT s;' . $change . insert(-1) . 'ROLLBACK TO s;' . insert($id) . "COMMIT;\n", "BEGIN; $change" . insert($id + 1) . "COMMIT;\n", insert($id + 2)
} 0 .. $#changes);

my $options = q{'owner_time', '1000s', 'owner_bytes', '1000MB'};

# Returns the names of the rules and the payloads, by row.
sub rows_of
{
    my (@lines) = @_;
    my %rows;
    for my $note (map { JSON::decode_json($_) } @lines)
    {
        my $row = $note->{payload}{after};
        push @{ $rows{ $row->{id} } }, join ' ', $note->{metadata}{rule} // '?', JSON->new->canonical->encode($row);
    }
    return \%rows;
}

my $one = rows_of(split /\n/, sql("SELECT data FROM pg_logical_slot_get_changes('one', NULL, NULL, $options)"));
my @each;
while (my $lines = sql("SELECT data FROM pg_logical_slot_get_changes('each', NULL, 1, $options)")) { push @each, split /\n/, $lines }
my $each = rows_of(@each);
for my $id (0 .. 3 * @changes - 1)
{
    is_deeply($one->{$id}, $each->{$id}, "row $id, with " . $changes[ $id / 3 ]);
}
done_testing();
