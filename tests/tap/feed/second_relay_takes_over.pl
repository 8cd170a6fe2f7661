# Does a second relay stand by, serve clients, and take the slot over when the first one dies?
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Clairon::Test::RawSocket;
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner')});
my $store  = Clairon::Test::store();
my $first  = Clairon::Test::relay($pg, $store);
my $second = Clairon::Test::relay($pg, $store);
$second->wait_for_log(qr/standing by/);
like(($second->get('/readyz'))[1], qr/"feed":"standby"/, 'a relay that stands by is ready and says so');

my $client = $second->client('u1');
$pg->safe_psql('postgres', q{INSERT INTO t VALUES (1, 'u1')});
is($client->wait_for('msg')->{n}{payload}{after}{id}, 1, 'and serves clients');

$first->kill9;
$pg->safe_psql('postgres', q{INSERT INTO t SELECT i, 'u1' FROM generate_series(2, 100) i});
$client->wait_notifications(100);
like(($second->get('/readyz'))[1], qr/"feed":"streaming"/, 'it takes over when the first one dies');
is(scalar $store->entries, 100, 'and nothing is stored twice');

# A relay that looked at the slot a moment before it was taken claims the progress too, and then finds the slot taken.
for my $key ($store->keys('progress:clairon'))
{
    my %progress = @{ $store->execute('HGETALL', $key) };
    $store->execute('HMSET', $key, owner => 'other', map { ("$_:other" => $progress{"$_:$progress{owner}"}) } qw(position read));
}
$pg->safe_psql('postgres', q{INSERT INTO t SELECT i, 'u1' FROM generate_series(101, 110) i});
$client->wait_notifications(110);
$second->wait_for_log(qr/FENCED another feed owns this slot now/);
is_deeply([ map { $_->{payload}{after}{id} } $client->notifications ], [ 1 .. 110 ], 'who lost the progress takes it again, unseen');
is(scalar $store->entries, 110, 'and nothing is stored twice');
is($second->metric('clairon_store_errors_total'), 0, 'which is no error of the store');

$first->start;
$first->wait_for_log(qr/standing by/);
is($second->stop, 0, 'now the second one leaves');
wait_until('the first one reads again',
    sub { ($first->get('/readyz'))[1] =~ /"feed":"streaming"/ });
pass('and the first one takes the slot back');
is($client->wait_closed, 4201, 'a client of a relay that drains is told to come back');
my $back = $first->client('u1', pos => $client->pos);
ok($back->wait_for('connected')->{resumed}, 'its position holds on the other relay');

$second->start;
$second->wait_ready;
my @both = map { $_->client('u2') } $first, $second;
$store->execute('FLUSHALL');
is($_->wait_for('gap')->{why}, 'epoch', 'a store that is emptied is noticed by each relay') for @both;
$pg->safe_psql('postgres', q{INSERT INTO t VALUES (1000, 'u2')});
$_->wait_notifications(1) for @both;
my ($here, $there) = map { $_->pos } @both;
is($here, $there, 'and their positions are the same again');

# Who drains lets the slot go first: the other one reads it while clients are still connected to the first.
$second->stop;
$first->restart;
my $mark = $second->log_mark;
$second->start;
$second->wait_for_log(qr/standing by/, from => $mark);
my @clients = map { Clairon::Test::RawSocket->user($first, "c$_") } 1 .. 3;
my $began = $first->log_mark;
kill TERM => $first->pid;
$first->wait_for_log(qr/draining connections" count=3/, from => $began);
kill STOP => $first->pid;
$second->wait_for_log(qr/streaming from slot/, from => $mark, seconds => 30);
kill CONT => $first->pid;
is($first->wait_end, 0, 'a relay that drains gives the slot away before its clients');

done_testing();
