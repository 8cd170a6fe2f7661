# Tests that the timing of a neighbour's rows detects work that delays them.
use strict;
use warnings;

use Clairon::Test;
use Clairon::Test::Neighbour;
use Test::More;

my $pg        = Clairon::Test::postgresql('main');
my $store     = Clairon::Test::store();
my $relay     = Clairon::Test::relay($pg, $store);
my $neighbour = Clairon::Test::Neighbour->new($pg, $relay, store => $store);
$neighbour->run_as('mallory', q{CREATE TABLE mallory.t (id int PRIMARY KEY, owner text); SELECT clairon.watch('mallory.t', 'USER', 'owner')});

my $honest = $neighbour->worst_delay('100 rows', q{INSERT INTO mallory.t SELECT i, 'u' FROM generate_series(1, 100) i});
my $begin  = $neighbour->delay_of_row;
cmp_ok($begin, '<', $honest + 1, 'a row without other work is not delayed');
$neighbour->watch_store;
my $walsender = $pg->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'walsender'});
kill 'STOP', $walsender;
Clairon::Test::Client::after(3, sub { kill 'CONT', $walsender });
my $attack = $neighbour->worst_delay('a stopped walsender', q{INSERT INTO mallory.t SELECT i, 'u' FROM generate_series(101, 200) i});
cmp_ok($attack, '>', 1.5, 'the delay of a row behind a stopped walsender is measured');
cmp_ok($neighbour->walsender_memory, '>', 0, 'the memory of the walsender is measured');
cmp_ok($neighbour->relay_memory,     '>', 0, 'the memory of the relay is measured');
$store->execute('EVAL', 'local n = 0; for i = 1, 3000000 do n = n + i end return n', 0);
my ($longest, $words) = $neighbour->store_longest;
like($words, qr/^EVAL local n/, 'the longest command of the store is found');
eval { $neighbour->worst_delay('a failure', 'SELECT 1/0') };
like($@, qr/division by zero/, 'an error of the work is reported');
done_testing();
