# Tests that several relays share the receipts of all shards, take those of relays that died, and read from each shard.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Clairon::Test::Receipts;
use Test::More;

$ENV{CLAIRON_TEST_SHARDS} = 4;
my $pg       = Clairon::Test::postgresql('main');
my $store    = Clairon::Test::store();
my $receipts = Clairon::Test::Receipts->new($pg, $store);
my %conf     = (conf => { 'receipts.sql' => 'true', 'gate.workers' => 2 });
sub backends { return $pg->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE application_name = 'clairon sink'}) }

my $first = Clairon::Test::relay($pg, $store, %conf);
wait_until('the sink is connected', sub { backends() == 1 });
my $second = Clairon::Test::relay($pg, $store, %conf);
wait_until('the second sink is connected', sub { backends() == 2 });
my $without = Clairon::Test::relay(undef, $store, roles => 'gate', conf => { 'receipts.sql' => 'true' });
$receipts->add_many(100);
$receipts->wait_all;
is_deeply([ $receipts->differences ], [], 'receipts of all shards are inserted');
is(backends(), 2, 'only the first worker of each relay with the role sink has a connection');
$without->stop;

# A relay dies while its receipts are under way.
my $locker = $pg->background_psql('postgres');
$locker->query_safe('BEGIN; LOCK TABLE clairon.receipt');
$receipts->add_many(200);
wait_until('both relays have read receipts', sub {
    my %names = map { $_ => 1 } map { $receipts->consumers('sql', $_) } 0 .. 3;
    keys %names == 2 && $receipts->pending('sql') > 0; });
my %before = map { $_ => 1 } map { $receipts->consumers('sql', $_) } 0 .. 3;
my @workers = Clairon::Test::children($first->pid);
$first->kill9;
wait_until('the workers have ended', sub { !grep { Clairon::Test::is_running($_) } @workers });
$receipts->add_many(50);
$locker->query_safe('COMMIT');
$locker->quit;
$receipts->wait_all;
is_deeply([ $receipts->differences ], [], 'another relay inserts the receipts of a relay that died');
wait_until('nothing is pending', sub { $receipts->pending('sql') == 0 });
wait_until('its consumers are removed', sub {
    my %names = map { $_ => 1 } map { $receipts->consumers('sql', $_) } 0 .. 3;
    keys %names == 1; });

# A shard with many receipts does not delay the others.
my $mark = $locker = undef;
$receipts->add({ shard => 3 }) for 1 .. 3000;
$receipts->add({ shard => 1, user_id => 'other' });
wait_until('the receipt of the other shard is inserted', sub { $pg->safe_psql('postgres', q{SELECT count(*) FROM clairon.receipt WHERE user_id = 'other'}) == 1 });
$receipts->wait_all;
is_deeply([ $receipts->differences ], [], 'all receipts are inserted');
done_testing();
