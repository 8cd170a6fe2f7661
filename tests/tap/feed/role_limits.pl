# Tests that limits of a role that are meant for interactive queries do not affect the relay's longer statements.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

my $MEMBERS = 60_000;
my $pg = Clairon::Test::postgresql('main');

sub sql { return $pg->safe_psql('postgres', $_[0]) }

sql(qq{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner');
    INSERT INTO clairon.member SELECT 'TEAM', 't1', 'u' || i FROM generate_series(1, $MEMBERS) i;
    ALTER ROLE relay SET statement_timeout = '50ms';
    ALTER ROLE relay SET lock_timeout = '10ms'});

# The creation of a slot waits for older transactions, for longer than lock_timeout.
my $open = $pg->background_psql('postgres');
$open->query_safe('BEGIN; SELECT pg_current_xact_id()');
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store, wait => 0);
wait_until('the slot creation waits', sub { sql(q{SELECT count(*) FROM pg_locks WHERE NOT granted AND clock_timestamp() - waitstart > '200ms'}) });
$open->query_safe('COMMIT');
$open->quit;
$relay->wait_ready;
unlike($relay->log_text, qr/timeout/, 'slot creation succeeds after longer than lock_timeout');

# The membership copy takes longer than statement_timeout.
is($store->execute('SCARD', $store->shared('members:TEAM:t1')), $MEMBERS, 'all memberships are copied');
is($relay->metric('clairon_feed_reconnects_total'), 0, 'memberships are copied without a retry');
my $client = $relay->client('u1');
sql(q{INSERT INTO t VALUES (1, 'u1')});
$client->wait_row(1);
pass('rows are delivered');

done_testing();
