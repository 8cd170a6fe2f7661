# A window full of unacknowledged messages: does it hold back those only, and let them in as acks make room?
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    CREATE TABLE plain (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner', ack_required => true);
    SELECT clairon.watch('plain', 'USER', 'owner')});
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store);

sub insert
{
    my ($table, $from, $to, $user) = @_;
    $user //= 'u1';
    $pg->safe_psql('postgres',
        "INSERT INTO $table SELECT i, '$user' FROM generate_series($from, $to) i");
    return;
}

sub rows { my ($client, $table) = @_;
    return map { $_->{payload}{after}{id} } grep { $_->{metadata}{source} eq $table } $client->notifications }

my $client = $relay->client('u1', win => 3);
my $asked_ms = time() * 1000;
my $connected = $client->wait_for('connected');
is($connected->{win}, 3, 'the relay grants the window asked for');
ok($connected->{now} >= $asked_ms - 60_000 && $connected->{now} <= time() * 1000 + 1000, 'and reports its clock in milliseconds');
insert('t', 1, 10);
insert('plain', 1, 1);
$client->wait_notifications(4);
is_deeply([ rows($client, 't') ], [ 1 .. 3 ], 'as many as the window holds are shown');
is_deeply([ rows($client, 'plain') ], [1], 'what needs no ack goes past them');

my $done = 0;
while ($done < 10)
{
    $client->run_until('more to ack', sub { rows($client, 't') > $done });
    my @notifications = grep { $_->{metadata}{source} eq 't' } $client->notifications;
    $client->ack(map { $_->{metadata}{id} } @notifications[ $done .. $#notifications ]);
    $done = @notifications;
}
is_deeply([ rows($client, 't') ], [ 1 .. 10 ], 'acks let in the rest, in order, each once');
wait_until('all are acked', sub { $store->pending == 0 });

# Another tab of the same user that only listens.
my $silent = $relay->client('u1', win => 3);
for my $id (11 .. 20)
{
    insert('t', $id, $id);
    $client->run_until("row $id", sub { grep { $_ == $id } rows($client, 't') });
    my ($note) = grep { $_->{payload}{after}{id} == $id && $_->{metadata}{source} eq 't' } $client->notifications;
    $client->ack($note->{metadata}{id});
}
$silent->run_until('the last row', sub { grep { $_ == 20 } rows($silent, 't') });
is_deeply([ rows($silent, 't') ], [ 11 .. 20 ], 'what one tab acks makes room in the other');

# What comes live does not go past what waits for room; and a single place is enough to go on.
wait_until('all are acked', sub { $store->pending == 0 });
my $tight = $relay->client('u2', win => 4);
sub ack_row { my ($id) = @_;
    $tight->ack(map { $_->{metadata}{id} } grep { $_->{payload}{after}{id} == $id } $tight->notifications) }
insert('t', 21, 25, 'u2');
$tight->run_until('a window full', sub { rows($tight, 't') == 4 && $store->pending == 5 });
ack_row(21);
wait_until('one is acked', sub { $store->pending == 4 });
insert('t', 26, 26, 'u2');
$tight->run_until('what waited', sub { rows($tight, 't') == 5 });
is_deeply([ rows($tight, 't') ], [ 21 .. 25 ], 'what waits for room comes before what is new');
ack_row(22);
$tight->run_until('the new one', sub { rows($tight, 't') == 6 });
is_deeply([ rows($tight, 't') ], [ 21 .. 26 ], 'which follows');
ack_row($_) for 23 .. 26;
$tight->close;

# Much that is pending must not keep a new connection from what is live.
wait_until('all are acked', sub { $store->pending == 0 });
$_->close for $client, $silent;
insert('t', 101, 400);
wait_until('they are pending', sub { $store->pending == 300 });
my $back = $relay->client('u1');
$back->run_until('a window full', sub { rows($back, 't') == 64 });
insert('plain', 2, 2);
$back->run_until('the live row', sub { rows($back, 'plain') });
is(scalar(() = rows($back, 't')), 64, 'behind a full window what is live arrives');
$done = 0;
while ($done < 300)
{
    $back->run_until('more to ack', sub { rows($back, 't') > $done });
    my @notifications = grep { $_->{metadata}{source} eq 't' } $back->notifications;
    $back->ack(map { $_->{metadata}{id} } @notifications[ $done .. $#notifications ]);
    $done = @notifications;
}
is_deeply([ rows($back, 't') ], [ 101 .. 400 ], 'and the pending ones follow as they are acked');
wait_until('all are acked', sub { $store->pending == 0 });

# The stream's group removed, and then the stream, under a live relay.
my $stream = ($store->entries)[0]{stream};
$store->execute('XGROUP', 'DESTROY', $stream, 'clairon');
insert('t', 401, 401);
wait_until('the group is back', sub { (eval { $store->pending } // 0) == 1 });
is(scalar(grep { $_->{data} =~ /"after":\{"id":401/ } $store->entries), 1,
    'a removed group is made again, and nothing stored twice');
$store->execute('DEL', $stream);
insert('plain', 402, 411);
insert('t', 402, 402);
is($back->wait_for('gap')->{why}, 'epoch', 'a removed stream is a gap for everyone');
wait_until('what came after it is stored, with acks or without', sub { (eval { scalar $store->entries } // 0) == 11 });
$back->run_until('the new row', sub { grep { $_ == 402 } rows($back, 't') });
pass('and the relay goes on');

# Something else in the stream's place: nothing is stored, and nothing taken for stored.
my $mark = $relay->log_mark;
$store->execute('DEL', $stream);
$store->execute('SET', $stream, 'mine');
insert('plain', 412, 431);
$relay->wait_for_log(qr/WRONGTYPE|not hold a stream|removed/, from => $mark);
$store->execute('DEL', $stream);
wait_until('once it is gone all are', sub { (eval { scalar grep { /"after":\{"id":(41[2-9]|42\d|43[01])\b/ } map { $_->{data} } $store->entries } // 0) == 20 });
pass('what could not be stored was kept by PostgreSQL');

# A position beyond all that is.
my ($epoch) = $back->wait_for('connected')->{pos} =~ /^(.*)\./;
my $far = $relay->client('u1', pos => "$epoch.18446744073709551615-18446744073709551615");
is($far->wait_for('gap')->{why}, 'epoch', 'a position that never was is told as a gap');

done_testing();
