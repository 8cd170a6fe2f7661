# Tests that rows of a table owner are delivered on time while another owner's changes take long: each row a little, by a
# condition of many functions, or by many rules, and TRUNCATE of a child of many watched tables.
use strict;
use warnings;

use Clairon::Test qw(amount);
use Clairon::Test::Neighbour;
use Test::More;

my $pg        = Clairon::Test::postgresql('main', conf => 'autovacuum = off');
my $store     = Clairon::Test::store();
my $relay     = Clairon::Test::relay($pg, $store);
my $neighbour = Clairon::Test::Neighbour->new($pg, $relay, store => $store);

sub sql { return $pg->safe_psql('postgres', $_[0]) }

# Returns the accounts for which clairon.status has denials, with their owners. Rows that a rule cannot evaluate have no
# account: TRUNCATE has no targets in a column.
sub denied
{
    return sql(q{SELECT string_agg(d->>'owner' || ' ' || (d->>'account'), ',' ORDER BY d->>'account')
        FROM clairon.status, jsonb_array_elements(denied) AS d WHERE d->>'account' <> 'rows'});
}

my ($rows, $changes, $truncates, $parents, $rules) = (amount(50_000, 300_000), amount(6000, 12_000), amount(20, 60), amount(100, 400), 10);
my %statement = (
    conditions => "INSERT INTO mallory.cond SELECT i, 'u', 'x' FROM generate_series(1, $rows) AS i",
    truncates  => "TRUNCATE mallory.child;\n" x $truncates,
    rules      => "INSERT INTO mallory.child SELECT i, 'u' FROM generate_series(1, $changes) AS i",
);
my %honest;

my $list = join ', ', map { "mallory.p$_" } 1 .. $parents;
$neighbour->run_as('mallory', join ";\n", map { "CREATE TABLE mallory.p$_ (id int PRIMARY KEY, u text)" } 1 .. $parents);
$neighbour->run_as('mallory', qq{CREATE TABLE mallory.child (id int, u text) INHERITS ($list);
    SELECT clairon.watch('mallory.p1', 'USER', 'u', name => 'r1', operations => '{create,truncate}');
    CREATE TABLE mallory.cond (id int, u text, s text);
    SELECT clairon.watch('mallory.cond', 'USER', 'u', name => 'r', operations => '{create}')});
$neighbour->delay_of_row;
$honest{$_} = $neighbour->worst_delay("$_, one plain rule", $statement{$_}) for sort keys %statement;
is(denied(), '', 'honest work is not denied');

my $hashes = join ' || ', map { "md5(s || '$_')" } 1 .. 120;
$neighbour->run_as('mallory', qq{SELECT clairon.watch('mallory.cond', 'USER', 'u', name => 'r', operations => '{create}',
    only_when => \$\$ $hashes = 'z' \$\$)});
$neighbour->is_unnoticed("$rows rows with a condition of 120 functions", $neighbour->worst_delay('conditions', $statement{conditions}),
    $honest{conditions});
is(denied(), 'mallory time', 'clairon.status names the owner');

$neighbour->run_as('mallory', qq{SELECT clairon.watch(('mallory.p' || p)::regclass, 'USER', 'u', name => 'r' || i, operations => '{create,truncate}')
    FROM generate_series(1, $rules) AS i, generate_series(1, $parents) AS p});
$neighbour->delay_of_row;
my $all = $rules * $parents;
$neighbour->is_unnoticed("$truncates times TRUNCATE of a child with $all rules of its parents",
    $neighbour->worst_delay('truncates', $statement{truncates}), $honest{truncates});
$neighbour->is_unnoticed("$changes rows with $all rules", $neighbour->worst_delay('rules', $statement{rules}), $honest{rules});
done_testing();
