# Tests that catalog changes of a table owner with many rules, and changes of a rule, do not delay the rows of another
# owner.
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

$neighbour->run_as('mallory', q{CREATE TABLE mallory.t (id int, u text, s text); SELECT clairon.watch('mallory.t', 'USER', 'u')});
my $grants = join "\n", map {
    "GRANT SELECT ON mallory.t TO alice; INSERT INTO mallory.t VALUES ($_, 'u'); REVOKE SELECT ON mallory.t FROM alice; INSERT INTO mallory.t VALUES ($_, 'u');"
} 1 .. amount(350, 4000);
# The extension updates the rule, whose target is in the column.
my $renames = join "\n", map {
    "ALTER TABLE mallory.t RENAME u TO w; INSERT INTO mallory.t VALUES ($_, 'u'); ALTER TABLE mallory.t RENAME w TO u; INSERT INTO mallory.t VALUES ($_, 'u');"
} 1 .. amount(200, 2000);
my $honest_grants  = $neighbour->worst_delay('catalog changes, one rule',   $grants);
my $honest_renames = $neighbour->worst_delay('changes of a rule, one rule', $renames);

# As many bytes of rules as half of an owner's limit.
$neighbour->run_as('mallory', "CREATE TABLE mallory.t$_ (id int, u text, s text)") for 1 .. 12;
$neighbour->run_as('mallory', q{SELECT clairon.watch('mallory.t1', 'USER', 'u', only_when => $$ s <> '} . ('x' x 6000) . q{' $$)});
sql(q{INSERT INTO clairon.rule SELECT (jsonb_populate_record(rule, jsonb_build_object('relation', ('mallory.t' || i)::regclass, 'name', 'r' || j))).*
    FROM clairon.rule, generate_series(1, 12) AS i, generate_series(1, 100) AS j WHERE relation = 'mallory.t1'::regclass});
$neighbour->delay_of_row;
my $attack = $neighbour->worst_delay('catalog changes, 1 200 long rules', $grants);
$neighbour->is_unnoticed('catalog changes', $attack, $honest_grants);
$attack = $neighbour->worst_delay('changes of a rule, 1 200 long rules', $renames);
$neighbour->is_unnoticed('changes of a rule', $attack, $honest_renames);
done_testing();
