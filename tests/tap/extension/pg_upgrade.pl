# Tests that rules, members and, if PostgreSQL preserves it, the slot work after pg_upgrade as described in
# docker/UPGRADE.md.
use strict;
use warnings;

use Clairon::Test qw(wait_until pg_major scratch);
use PostgreSQL::Test::Utils qw(run_log);
use Test::More;

my $keeps_slots = pg_major() >= 17;
my $old = Clairon::Test::postgresql('old');
my $new = Clairon::Test::postgresql('new', extension => 0);
$new->stop;
# A column was dropped, so rules must keep the remaining column numbers.
$old->safe_psql('postgres', q{
    CREATE TABLE t (gone int, id int PRIMARY KEY, owner text);
    ALTER TABLE t DROP COLUMN gone;
    ALTER TABLE t REPLICA IDENTITY FULL;
    SELECT clairon.watch('t', 'USER', 'owner', only_when => 'id > 0');
    INSERT INTO clairon.member VALUES ('TEAM', 't1', 'u1')});
my $store  = Clairon::Test::store(fsync => 'always');
my $relay  = Clairon::Test::relay($old, $store);
my $client = $relay->client('u1');
$old->safe_psql('postgres', q{INSERT INTO t VALUES (1, 'u1')});
$client->wait_notifications(1);

# As documented, the relay reads all changes and stops, and on older versions the slot is dropped.
my $end = $old->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');
wait_until('all changes are confirmed', sub {
    $old->safe_psql('postgres', "SELECT confirmed_flush_lsn >= '$end' FROM clairon.status") eq 't' });
$relay->stop;
$old->drop_slot('clairon') unless $keeps_slots;
$old->stop;
my $folder = scratch();    # short enough for a socket path
chdir $folder or die "could not change to $folder: $!";
ok(run_log([ 'pg_upgrade', '--no-sync', '-d', $old->data_dir, '-D', $new->data_dir, '-b', "$ENV{CLAIRON_ROOT}/bin", '-B', "$ENV{CLAIRON_ROOT}/bin",
        '-p', $old->port, '-P', $new->port, '-s', $folder ]), 'the cluster is upgraded');
chdir '/';
$new->start;
is($new->safe_psql('postgres', q{SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'clairon'}), $keeps_slots ? 1 : 0,
    $keeps_slots ? 'the slot is kept' : 'the slot does not exist');
is($new->safe_psql('postgres', q{SELECT string_agg(check_name, ', ') FROM clairon.doctor() WHERE NOT ok AND check_name !~ 'slot'}), '',
    'the doctor accepts the extension');

# The upgraded cluster is new, so the store's progress must be deleted.
$relay->configure('feed.conninfo' => $new->connstr('postgres') . ' user=relay');
my $mark = $relay->log_mark;
$relay->start;
is($relay->wait_end >> 8, 3, 'the relay rejects the upgraded database while the progress is stored');
$relay->wait_for_log(qr/OTHERSYSTEM .* DEL that key/, from => $mark);
$new->safe_psql('postgres', q{INSERT INTO t VALUES (2, 'u1')});
$store->execute('DEL', $store->keys('progress:clairon'));
$relay->start;
$relay->wait_ready;
my $reconnected = $relay->client('u1', pos => $client->pos);
is($reconnected->wait_for('gap')->{why}, 'epoch', 'clients receive one gap');
$new->safe_psql('postgres', q{INSERT INTO t VALUES (-1, 'u1'), (3, 'u1'); DELETE FROM t WHERE id = 3});
$reconnected->wait_for(sub { $_[0]{t} eq 'msg' && $_[0]{n}{metadata}{operation} eq 'delete' });
my @stored = map { $_->{data} =~ /"operation":"(\w+)".*"id":(-?\d+)/ ? "$1 $2" : 'none' } $store->entries;
is_deeply(\@stored, [ 'create 1', ($keeps_slots ? 'create 2' : ()), 'create 3', 'delete 3' ],
    'rules are unchanged, and a preserved slot misses no change');
is_deeply($store->execute('SMEMBERS', $store->key('members:TEAM:t1')), ['u1'], 'members are preserved');

done_testing();
