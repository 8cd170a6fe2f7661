# Tests that each notification contains the 64-bit id of its top-level transaction, and the name of a live rule.
# The 32-bit ids wrap around within the test.
use strict;
use warnings;

use Clairon::Test qw(token);
use Clairon::Test::EventStream;
use Clairon::Test::RawSocket;
use JSON ();
use PostgreSQL::Test::Utils qw(run_log);
use Test::More;

use constant { EPOCH => 2, LAST => 2**32 - 400 };

my $pg = Clairon::Test::postgresql('main', conf => <<'CONF');
autovacuum = off
logical_decoding_work_mem = 64kB
max_prepared_transactions = 5
CONF
sub sql { return $pg->safe_psql('postgres', $_[0]) }

# ---- the test starts 400 transactions before a wraparound; frozen rows do not depend on ids

$pg->safe_psql($_, 'VACUUM (FREEZE)') for qw(template1 postgres);
$pg->stop;
my $segment = sprintf '%s/pg_xact/%04X', $pg->data_dir, int(LAST / (8192 * 4 * 32));
open my $clog, '>', $segment or die "could not create $segment: $!";
print $clog "\0" x (8192 * 32);
close $clog or die "could not write $segment: $!";
ok(run_log([ 'pg_resetwal', '-e', EPOCH, '-x', LAST, '-D', $pg->data_dir ]), 'the next id is set');
$pg->start;

# Checks that each row has the id of the transaction that wrote it.
sql(q{
    CREATE TABLE rows (id int PRIMARY KEY, owner text, xid text DEFAULT pg_current_xact_id()::text, body text);
    CREATE TABLE acked (id int PRIMARY KEY, owner text, xid text DEFAULT pg_current_xact_id()::text);
    ALTER TABLE rows REPLICA IDENTITY FULL;
    SELECT clairon.watch('rows', 'USER', 'owner', live => true);
    SELECT clairon.watch('acked', 'USER', 'owner', ack_required => true, ack_timeout => '100 milliseconds', backoff => 'FIXED')});
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store, conf => { 'delivery.backoff_base' => '100ms' });
my $client = $relay->client('u1');

sub messages { return grep { $_->{t} eq 'msg' } @{ $client->{messages} } }
sub rows { return grep { $_->{n}{metadata}{source} eq 'rows' } messages() }
sub is_of_its_transaction { my ($message) = @_; return $message->{x} eq $message->{n}{payload}{after}{xid} }

# ---- kinds of transactions

sql(q{INSERT INTO rows VALUES (1, 'u1')});
my $first = $client->wait_row(1);
ok(is_of_its_transaction($first), 'a row has the id of its transaction');
is($first->{x} >> 32, EPOCH, 'the id of a transaction contains the epoch');
is($first->{rule}, 'default', 'a notification of a live rule names its rule');
sql(q{BEGIN; SELECT pg_current_xact_id();
    SAVEPOINT a; INSERT INTO rows VALUES (2, 'u1', pg_current_xact_id()::text); ROLLBACK TO a;
    SAVEPOINT b; INSERT INTO rows VALUES (3, 'u1', pg_current_xact_id()::text); RELEASE b;
    SAVEPOINT c; SELECT clairon.notify('USER', '{u1}', jsonb_build_object('after', jsonb_build_object('id', 4, 'xid', pg_current_xact_id()))); COMMIT});
ok(is_of_its_transaction($client->wait_row(3)), 'a row written after a savepoint has the id of the top-level transaction');
my $notify = $client->wait_row(4);
ok(is_of_its_transaction($notify), 'a notification of clairon.notify has the id of its transaction');
ok(!exists $notify->{rule}, 'a notification of clairon.notify has no rule name');
sql(q{BEGIN; INSERT INTO rows SELECT i, 'u1' FROM generate_series(1000, 1499) AS i;
    SAVEPOINT a; INSERT INTO rows (id, owner, body) SELECT i, 'u1', repeat('b', 200) FROM generate_series(1500, 2000) AS i; COMMIT});
$client->wait_row(2000);
is(scalar(grep { $_->{n}{payload}{after}{id} >= 1000 && is_of_its_transaction($_) && $_->{rule} eq 'default' } rows()), 1001,
    'each row of a streamed transaction has its transaction id');
cmp_ok(sql(q{SELECT stream_txns FROM pg_stat_replication_slots WHERE slot_name = 'clairon'}), '>', 0, 'the large transaction was streamed');
sql(q{UPDATE rows SET owner = 'u2' WHERE id = 1});
my $lost = $client->wait_for(sub { $_[0]{t} eq 'msg' && $_[0]{n}{metadata}{operation} eq 'delete' });
cmp_ok($lost->{x}, '>', $client->wait_row(2000)->{x}, 'a delete notification has the id of its transaction');
is($lost->{rule}, 'default', 'a delete notification names its rule');

# ---- memberships

my $member = sql(q{BEGIN; SAVEPOINT a; INSERT INTO clairon.member VALUES ('ROLE', 'r', 'u1'); SELECT pg_current_xact_id(); COMMIT});
sql(q{INSERT INTO rows VALUES (5, 'u1')});
$client->wait_row(5);
my %change = @{ $store->execute('XREVRANGE', $store->shared('control'), '+', '-', 'COUNT', 1)->[0][1] };
is($change{xid}, $member, 'a change of memberships has the id of its transaction');

# ---- retries, other transports, published notifications

sql(q{INSERT INTO acked VALUES (1, 'u1')});
my $retry = $client->wait_for(sub { $_[0]{t} eq 'msg' && $_[0]{n}{routing}{retry}{attempts} == 1 });
ok(is_of_its_transaction($retry), 'a retry keeps the id');
ok(!exists $retry->{rule}, 'a notification of a rule that is not live names no rule');
$client->ack($retry->{n}{metadata}{id});
sub request { my ($method, $path, @rest) = @_; return Clairon::Test::RawSocket->new($relay)->request($method, $path,
    Authorization => 'Bearer ' . token(sub => 'u1', publish => JSON::true), @rest) }
my ($one) = grep { $_->{n}{metadata}{id} eq $first->{n}{metadata}{id} }
  map { JSON::decode_json($_) } split /\n/, request(GET => '/v1/poll?max=64&pos=' . $client->wait_for('connected')->{pos})->{body};
is_deeply($one, $first, 'a poll returns the same JSON');
my $stream = Clairon::Test::EventStream->open($relay, 'u1', 'Last-Event-ID' => $client->wait_for('connected')->{pos});
is_deeply($stream->wait_message('msg'), $first, 'an SSE stream returns the same JSON');
request(POST => '/v1/notifications', ':body' => { payload => { after => { id => 6 } }, routing => { audience => { type => 'USER', targets => ['u1'] } } });
ok(!exists $client->wait_row(6)->{x}, 'a published notification has no transaction id');

# ---- transactions before and after the wraparound

my $prepared = sql(q{BEGIN; INSERT INTO rows VALUES (7, 'u1'); SELECT pg_current_xact_id(); PREPARE TRANSACTION 'p'});
sql(q{DO $$ BEGIN FOR i IN 1 .. 500 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$});
is(sql('SELECT pg_current_xact_id()') >> 32, EPOCH + 1, 'ids have wrapped around');
sql(q{COMMIT PREPARED 'p'; INSERT INTO rows VALUES (8, 'u1')});
my $before = $client->wait_row(7);
is($before->{x}, $prepared, 'a transaction prepared before the wraparound keeps its id');
is($before->{x} >> 32, EPOCH, 'the id of a prepared transaction has the previous epoch');
my $after = $client->wait_row(8);
ok(is_of_its_transaction($after), 'a transaction after the wraparound has its id');
is($after->{x} >> 32, EPOCH + 1, 'the id after the wraparound has the new epoch');

done_testing();
