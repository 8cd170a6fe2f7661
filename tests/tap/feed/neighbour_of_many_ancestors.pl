# Tests that catalog changes of a table owner, and rows of tables that have many ancestors but no rule, do not delay the
# rows of another owner.
use strict;
use warnings;

use Clairon::Test qw(amount);
use Clairon::Test::Neighbour;
use Test::More;

my $pg        = Clairon::Test::postgresql('main', conf => "autovacuum = off\nmax_locks_per_transaction = 256\nsynchronous_commit = off");
my $store     = Clairon::Test::store();
my $relay     = Clairon::Test::relay($pg, $store);
my $neighbour = Clairon::Test::Neighbour->new($pg, $relay, store => $store);
my $ancestors = amount(1000, 3000);
my $rounds    = amount(450, 4000);

# As many catalog changes and rows, of these tables in turns. The changes are of a table, or of the tables themselves.
sub work
{
    my ($changed, @tables) = @_;
    return join "\n", map {
        my $table = $tables[ $_ % @tables ];
        my $on    = $changed // $table;
        "GRANT SELECT ON mallory.$on TO alice; INSERT INTO mallory.$table VALUES ($_);
         REVOKE SELECT ON mallory.$on FROM alice; INSERT INTO mallory.$table VALUES ($_);"
    } 1 .. $rounds;
}

$neighbour->run_as('mallory', qq{CREATE TABLE mallory.any (a int); CREATE TABLE mallory.top (id int); CREATE TABLE mallory.honest () INHERITS (mallory.top);
    DO \$\$ BEGIN
        CREATE TABLE mallory.a0 (id int);
        FOR i IN 1 .. $ancestors LOOP
            EXECUTE format('CREATE TABLE mallory.a%s () INHERITS (mallory.a%s)', i, i - 1);
        END LOOP;
    END \$\$;
    DO \$\$ BEGIN
        FOR i IN 1 .. $ancestors LOOP
            EXECUTE format('CREATE TABLE mallory.p%s (id int)', i);
        END LOOP;
        EXECUTE 'CREATE TABLE mallory.wide () INHERITS (' || (SELECT string_agg('mallory.p' || i, ', ') FROM generate_series(1, $ancestors) AS i) || ')';
    END \$\$});
my $honest = $neighbour->worst_delay('a table with a parent', work('any', 'honest'));
for my $case (["$ancestors generations", 'any', "a$ancestors"], ["$ancestors parents", 'any', 'wide'],
    ['GRANT on the lowest generation', undef, "a$ancestors"], ['GRANT on a table with many parents', undef, 'wide'])
{
    my ($what, @work) = @$case;
    my $attack = $neighbour->worst_delay($what, work(@work));
    $neighbour->is_unnoticed($what, $attack, $honest);
}

# Denials of mallory do not matter here.
$neighbour->run_as('mallory', q{ALTER TABLE mallory.a0 ADD u text; SELECT clairon.watch('mallory.a0', 'USER', 'u')});
my $attack = $neighbour->worst_delay('a rule on the first generation', work('any', "a$ancestors"));
$neighbour->is_unnoticed('a rule on the first generation', $attack, $honest);
$attack = $neighbour->worst_delay('TRUNCATE', "TRUNCATE mallory.a0;\n" x amount(5, 20));
$neighbour->is_unnoticed('TRUNCATE', $attack, $honest);
done_testing();
