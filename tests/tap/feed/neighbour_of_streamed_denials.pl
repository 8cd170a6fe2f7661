# Tests that the denied rows of a large transaction, which is decoded before its commit, do not delay the rows of another
# owner longer than rows that are sent.
use strict;
use warnings;

use Clairon::Test qw(amount);
use Clairon::Test::Neighbour;
use Test::More;

my $pg        = Clairon::Test::postgresql('main', conf => "autovacuum = off\nlogical_decoding_work_mem = 4MB");
my $store     = Clairon::Test::store();
my $relay     = Clairon::Test::relay($pg, $store);
my $neighbour = Clairon::Test::Neighbour->new($pg, $relay, store => $store);
my $rows      = amount(50_000, 300_000);

sub insert { return "INSERT INTO mallory.$_[0] SELECT i, 'u', 'v' FROM generate_series(1, $rows) AS i" }

$neighbour->run_as('mallory', q{CREATE TABLE mallory.honest (id int, u text, s text); SELECT clairon.watch('mallory.honest', 'USER', 'u');
    CREATE TABLE mallory.dropped (id int, u text, s text, who text);
    SELECT clairon.watch('mallory.dropped', 'USER', 'who', name => 'r' || i) FROM generate_series(1, 100) AS i;
    ALTER TABLE mallory.dropped DROP who;
    CREATE TABLE mallory.failing (id int, u text, s text);
    SELECT clairon.watch('mallory.failing', 'USER', 'u', name => 'r' || i, only_when => 'id / 0 = 1') FROM generate_series(1, 100) AS i});
$neighbour->delay_of_row;
my $honest = $neighbour->worst_delay("$rows rows that are sent", insert('honest'));
cmp_ok($pg->safe_psql('postgres', 'SELECT sum(stream_txns) FROM pg_stat_replication_slots'), '>', 0, 'the transaction is streamed');
for my $table ('dropped', 'failing')
{
    my $attack = $neighbour->worst_delay("100 rules of $table", insert($table));
    $neighbour->is_unnoticed("100 rules of $table", $attack, $honest);
}
done_testing();
