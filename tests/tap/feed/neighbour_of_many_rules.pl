# Tests that rows of a table owner are delivered on time while the rules of another owner need much of the decoder: many
# plans, long conditions, and values that print long.
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

# The same commands with one rule, and with many. A superuser sets the rules: a table owner may set only a few on a table.
sub compare
{
    my ($what, $table, $rules, $sql) = @_;
    my $watch = qq{SELECT clairon.watch('mallory.$table', 'USER', 'u', name => 'r' || i, only_when => %s) FROM generate_series(1, %d) AS i};
    sql(sprintf $watch, 'NULL', 1);
    my $honest = $neighbour->worst_delay("$what, one rule", $sql);
    sql(sprintf $watch, $rules->{only_when} // 'NULL', $rules->{count});
    my $attack = $neighbour->worst_delay($what, $sql);
    $neighbour->is_unnoticed($what, $attack, $honest);
    $neighbour->run_as('mallory', "DROP TABLE mallory.$table");
    return;
}

my $columns = join ', ', map { "c$_ int" } 1 .. 1000;
$neighbour->run_as('mallory', "CREATE TABLE mallory.wide (id int, u text, $columns) PARTITION BY LIST (id)");
$neighbour->run_as('mallory', "CREATE TABLE mallory.wide$_ PARTITION OF mallory.wide FOR VALUES IN ($_)") for 1 .. 5;
compare('plans', 'wide', { count => amount(300, 1000), only_when => q{'id < 0'} },
    join "\n", map { "GRANT SELECT ON mallory.wide1 TO alice; INSERT INTO mallory.wide (id) SELECT generate_series(1, 5); REVOKE SELECT ON mallory.wide1 FROM alice;" }
        1 .. amount(15, 50));
my $terms = join ' AND ', map { "s <> 'x$_'" } 1 .. 249;
$neighbour->run_as('mallory', 'CREATE TABLE mallory.cond (id serial, u text, s text)');
compare('conditions', 'cond', { count => 100, only_when => qq{\$\$ s = 'y' AND $terms \$\$} },
    "ANALYZE mallory.cond; INSERT INTO mallory.cond (u, s) VALUES ('u', 'n');\n" x amount(30, 80));
# 40 kB of WAL would become 420 MB. The account of bytes allows 64 MB of that, as much as the honest documents.
my $numbers = join ', ', map { "n$_ numeric" } 1 .. 40;
my $values  = join ', ', ('1e131071') x 40;
$neighbour->run_as('mallory', "CREATE TABLE mallory.num (id serial, u text, $numbers)");
sql(q{SELECT clairon.watch('mallory.num', 'USER', 'u', name => 'r' || i) FROM generate_series(1, 4) AS i});
my $attack = $neighbour->worst_delay('numbers that print long',
    'INSERT INTO mallory.num (u, ' . join(', ', map { "n$_" } 1 .. 40) . ") SELECT 'u', $values FROM generate_series(1, 20)");
like(sql(q{SELECT denied->0->>'owner' FROM clairon.status}), qr/^mallory$/, 'clairon.status names the owner');
sql('GRANT clairon_app TO mallory');
$neighbour->run_as('mallory', q{CREATE TABLE mallory.plain (id serial, u text, s text); SELECT clairon.watch('mallory.plain', 'USER', 'u')});
my $honest = $neighbour->worst_delay('60 documents of 1 MB',
    q{INSERT INTO mallory.plain (u, s) SELECT 'u', repeat('s', 1048000) FROM generate_series(1, 60)});
$neighbour->is_unnoticed('numbers that print long', $attack, $honest);
cmp_ok($neighbour->walsender_memory, '<', 150, 'the memory of the walsender is limited');
done_testing();
