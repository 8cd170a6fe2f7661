# Tests barriers with several shards, in cases in which shard 0 could report nothing about the others: they have no
# notifications; it stores a large batch in steps; or it has more than the feed, which started again from the progress of a
# shard that was emptied.
use strict;
use warnings;

BEGIN { $ENV{CLAIRON_TEST_SHARDS} = 4 }
use Clairon::Test qw(wait_until wait_confirmed token);
use Test::More;

use constant SHARDS => 4;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
$pg->safe_psql('postgres', q{
    CREATE TABLE quiet (id int);
    CREATE TABLE one (id serial PRIMARY KEY, owner text);
    CREATE TABLE many (id serial PRIMARY KEY, team text);
    SELECT clairon.watch('one', 'USER', 'owner', operations => '{create}');
    SELECT clairon.watch('many', 'TEAM', 'team', operations => '{create}', ack_required => true);
    INSERT INTO clairon.member VALUES ('TEAM', 't1', 'u1')});
my $relay  = Clairon::Test::relay($pg, $store, conf => { 'rows.timeout' => '10s' });
my $client = $relay->client('u1');
my $received = 0;

sub row { my ($sql) = @_; return $pg->safe_psql('postgres', "$sql RETURNING pg_current_xact_id()") =~ s/\n.*//sr }
sub barrier { my ($x, $user) = @_; return ($relay->get("/v1/barrier?x=$x", Authorization => 'Bearer ' . token(sub => $user)))[0] }
sub is_served { my $status = barrier(@_); return $status == 200 || die "the status of a barrier is $status\n" }
sub recorded { my ($shard) = @_; my $key = "clairon:{$shard}:progress:clairon"; return $store->execute('HGET', $key, 'read:' . $store->execute('HGET', $key, 'owner')) // '' }
sub shards_with_rows { return grep { $store->execute('XLEN', "clairon:{$_}:stream") } 1 .. SHARDS - 1 }

# Each barrier follows WAL without notifications.
sub check_without_notifications
{
    my ($when) = @_;
    my $test = "$when: a barrier is served while the shards have no notifications, before the other shards record the position";
    wait_until($test, sub {
        my $before = join ' ', map { recorded($_) } 1 .. SHARDS - 1;
        is_served(row('INSERT INTO quiet VALUES (1)'), 'u1');
        $before eq join ' ', map { recorded($_) } 1 .. SHARDS - 1 });
    return pass($test);
}

check_without_notifications('at first');
row(q{INSERT INTO one (owner) VALUES ('u1')});
$client->wait_notifications(++$received);
my ($own) = shards_with_rows();
row(q{INSERT INTO many (team) VALUES ('t1')});
$client->wait_notifications(++$received);
wait_confirmed($pg);

# All shards may record at the same time, so it is repeated.
wait_until('a barrier is served behind a batch that shard 0 stores in steps, before the other shard records it', sub {
    my $before = recorded($own);
    is_served(row(q{INSERT INTO many (team) VALUES ('t1')}), 'u1');
    recorded($own) eq $before });
pass('a barrier is served behind a batch that shard 0 stores in steps, before the other shard records it');

# Shard 0 contains the newest row, and the server sends no row again.
row(q{INSERT INTO many (team) VALUES ('t1')});
wait_confirmed($pg);
my ($emptied) = grep { $_ != $own } 1 .. SHARDS - 1;
my $epoch = $store->execute('HGET', "clairon:{$emptied}:meta", 'epoch');
$relay->kill9;
$store->execute('DEL', @{ $store->execute('KEYS', "clairon:{$emptied}:*") });
$relay->start;
$relay->wait_ready;
isnt($store->execute('HGET', "clairon:{$emptied}:meta", 'epoch'), $epoch, 'a shard was emptied');
for my $user ('u1', 'u2', 'u3', 'u4')
{
    is(barrier(row('INSERT INTO quiet VALUES (1)'), $user), 200, "a barrier of $user behind a transaction without notifications");
}

# A feed that starts finds no notification.
$relay->stop;
$store->execute('XTRIM', $_, 'MAXLEN', 0) for $store->keys('stream');
$relay->start;
$relay->wait_ready;
check_without_notifications('after they were trimmed');

done_testing();
