# Tests that a second relay waits as standby, serves clients, and takes over the slot when the first relay is killed.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner')});
my $store  = Clairon::Test::store();
my $first  = Clairon::Test::relay($pg, $store);
my $second = Clairon::Test::relay($pg, $store);
$second->wait_for_log(qr/waiting as standby/);
like(($second->get('/readyz'))[1], qr/"feed":"standby"/, 'a relay in standby is ready and reports standby');

my $client = $second->client('u1');
$pg->safe_psql('postgres', q{INSERT INTO t VALUES (1, 'u1')});
is($client->wait_for('msg')->{n}{payload}{after}{id}, 1, 'a relay in standby serves clients');

$first->kill9;
$pg->safe_psql('postgres', q{INSERT INTO t SELECT i, 'u1' FROM generate_series(2, 100) i});
$client->wait_notifications(100);
like(($second->get('/readyz'))[1], qr/"feed":"streaming"/,
    'the second relay takes over when the first relay is killed');
is(scalar $store->entries, 100, 'no row is stored twice');

# Simulates a relay that finds an inactive slot just before another relay acquires it: the relay acquires the progress,
# and then finds the slot active.
for my $key ($store->keys('progress:clairon'))
{
    my %progress = @{ $store->execute('HGETALL', $key) };
    $store->execute('HMSET', $key, owner => 'other', map { ("$_:other" => $progress{"$_:$progress{owner}"}) } qw(position read));
}
$pg->safe_psql('postgres', q{INSERT INTO t SELECT i, 'u1' FROM generate_series(101, 110) i});
$client->wait_notifications(110);
$second->wait_for_log(qr/FENCED another feed owns this slot now/);
is_deeply([ map { $_->{payload}{after}{id} } $client->notifications ], [ 1 .. 110 ], 'a feed that is fenced acquires the progress again without a gap');
is(scalar $store->entries, 110, 'a changed owner of the progress causes no duplicates');
is($second->metric('clairon_store_errors_total'), 0, 'a changed owner of the progress causes no store errors');

$first->start;
$first->wait_for_log(qr/waiting as standby/);
is($second->stop, 0, 'the second relay exits with status 0');
wait_until('the first relay streams again',
    sub { ($first->get('/readyz'))[1] =~ /"feed":"streaming"/ });
pass('the first relay takes over the slot again');
is($client->wait_closed, 4201, 'a client of a draining relay receives a bye');
my $reconnected = $first->client('u1', pos => $client->pos);
ok($reconnected->wait_for('connected')->{resumed}, 'the cursor of the closed client is valid on the other relay');

$second->start;
$second->wait_ready;
my @both = map { $_->client('u2') } $first, $second;
$store->execute('FLUSHALL');
is($_->wait_for('gap')->{why}, 'epoch', 'each relay detects an emptied store') for @both;
$pg->safe_psql('postgres', q{INSERT INTO t VALUES (1000, 'u2')});
$_->wait_notifications(1) for @both;
my ($first_pos, $second_pos) = map { $_->pos } @both;
is($first_pos, $second_pos, 'the cursors of both relays are equal again');

# A draining relay releases the slot first: the other relay streams while clients are still connected to the draining
# relay.
$second->stop;
$first->restart;
my $mark = $second->log_mark;
$second->start;
$second->wait_for_log(qr/waiting as standby/, from => $mark);
my @clients = map { Clairon::Test::RawSocket->user($first, "c$_") } 1 .. 3;
my $began = $first->log_mark;
kill TERM => $first->pid;
$first->wait_for_log(qr/draining connections" count=3/, from => $began);
kill STOP => $first->pid;
$second->wait_for_log(qr/streaming from slot/, from => $mark);
kill CONT => $first->pid;
is($first->wait_end, 0, 'a draining relay releases the slot before it closes its clients');

# A relay with another prefix of the store waits for the same slot: its clients would receive nothing.
$second->wait_ready;
my $other = Clairon::Test::relay($pg, $store, conf => { 'store.prefix' => 'other' }, wait => 0);
$other->wait_for_log(qr/level=warn .*slot is in use by a relay with another store.* prefix="other"/);
my ($found) = grep { $_->{check} eq 'slot' } @{ JSON::decode_json((($other->run('doctor', '--json'))[1]))->{checks} };
is($found->{level}, 'warn', 'the doctor warns of the other prefix');
like($found->{detail}, qr/not into this store with prefix other/, 'the doctor names the prefix');
unlike($first->log_text . $second->log_text, qr/another store/, 'relays with the same prefix do not warn');

done_testing();
