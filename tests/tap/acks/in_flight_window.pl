# Tests that a full in-flight window delays only notifications with ack_required, and refills as acks arrive.
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
my $connect_ms = time() * 1000;
my $connected = $client->wait_for('connected');
is($connected->{win}, 3, 'the relay grants the requested in-flight window');
ok($connected->{now} >= $connect_ms - 60_000 && $connected->{now} <= time() * 1000 + 1000, 'the relay reports its clock in milliseconds');
insert('t', 1, 10);
insert('plain', 1, 1);
$client->wait_notifications(4);
is_deeply([ rows($client, 't') ], [ 1 .. 3 ], 'the relay fills the in-flight window');
is_deeply([ rows($client, 'plain') ], [1], 'notifications without ack_required bypass the in-flight window');

my $done = 0;
while ($done < 10)
{
    $client->run_until('more notifications arrive', sub { rows($client, 't') > $done });
    my @notifications = grep { $_->{metadata}{source} eq 't' } $client->notifications;
    $client->ack(map { $_->{metadata}{id} } @notifications[ $done .. $#notifications ]);
    $done = @notifications;
}
is_deeply([ rows($client, 't') ], [ 1 .. 10 ], 'acks refill the in-flight window, in order and without duplicates');
wait_until('all notifications are acknowledged', sub { $store->pending == 0 });

# Another session of the same user does not send acks.
my $silent = $relay->client('u1', win => 3);
for my $id (11 .. 20)
{
    insert('t', $id, $id);
    $client->run_until("row $id arrives", sub { grep { $_ == $id } rows($client, 't') });
    my ($notification) = grep { $_->{payload}{after}{id} == $id && $_->{metadata}{source} eq 't' } $client->notifications;
    $client->ack($notification->{metadata}{id});
}
$silent->run_until('the last row arrives', sub { grep { $_ == 20 } rows($silent, 't') });
is_deeply([ rows($silent, 't') ], [ 11 .. 20 ],
    'an ack of one session frees the in-flight window of the other session');

# New notifications do not overtake queued notifications, and one free slot is sufficient to send the next notification.
wait_until('all notifications are acknowledged', sub { $store->pending == 0 });
my $tight = $relay->client('u2', win => 4);
sub ack_row { my ($id) = @_;
    $tight->ack(map { $_->{metadata}{id} } grep { $_->{payload}{after}{id} == $id } $tight->notifications) }
insert('t', 21, 25, 'u2');
$tight->run_until('the in-flight window is full', sub { rows($tight, 't') == 4 && $store->pending == 5 });
ack_row(21);
wait_until('one notification is acknowledged', sub { $store->pending == 4 });
insert('t', 26, 26, 'u2');
$tight->run_until('a queued row arrives', sub { rows($tight, 't') == 5 });
is_deeply([ rows($tight, 't') ], [ 21 .. 25 ], 'queued notifications are delivered before new notifications');
ack_row(22);
$tight->run_until('the new row arrives', sub { rows($tight, 't') == 6 });
is_deeply([ rows($tight, 't') ], [ 21 .. 26 ], 'the new notification follows the queued notifications');
ack_row($_) for 23 .. 26;
$tight->close;

# A large pending list must not delay live notifications on a new connection.
wait_until('all notifications are acknowledged', sub { $store->pending == 0 });
$_->close for $client, $silent;
insert('t', 101, 400);
wait_until('300 notifications are pending', sub { $store->pending == 300 });
my $reconnected = $relay->client('u1');
$reconnected->run_until('the in-flight window is full', sub { rows($reconnected, 't') == 64 });
insert('plain', 2, 2);
$reconnected->run_until('the live row arrives', sub { rows($reconnected, 'plain') });
is(scalar(() = rows($reconnected, 't')), 64, 'a live notification is delivered although the in-flight window is full');
$done = 0;
while ($done < 300)
{
    $reconnected->run_until('more notifications arrive', sub { rows($reconnected, 't') > $done });
    my @notifications = grep { $_->{metadata}{source} eq 't' } $reconnected->notifications;
    $reconnected->ack(map { $_->{metadata}{id} } @notifications[ $done .. $#notifications ]);
    $done = @notifications;
}
is_deeply([ rows($reconnected, 't') ], [ 101 .. 400 ], 'the pending notifications follow as acks arrive');
wait_until('all notifications are acknowledged', sub { $store->pending == 0 });

# Returns the number of stored notifications of these rows; 0 if a stream cannot be read.
sub stored_rows
{
    my $ids = join '|', @_;
    return (eval { scalar grep { $_->{data} =~ /"after":\{"id":($ids)\b/ } $store->entries }) // 0;
}

# The consumer group and then the stream are removed while the relay runs.
my $stream = ($store->entries)[0]{stream};
$store->execute('XGROUP', 'DESTROY', $stream, 'clairon');
insert('t', 401, 401);
wait_until('the consumer group exists again', sub { (eval { $store->pending } // 0) == 1 });
is(scalar(grep { $_->{data} =~ /"after":\{"id":401/ } $store->entries), 1,
    'a removed consumer group is recreated, without duplicates in the stream');
$store->execute('DEL', $stream);
insert('plain', 402, 411);
insert('t', 402, 402);
is($reconnected->wait_for('gap')->{why}, 'epoch', 'a removed stream causes a gap for all sessions');
wait_until('later rows are stored', sub { stored_rows(402 .. 411) == 11 });
$reconnected->run_until('the new row arrives', sub { grep { $_ == 402 } rows($reconnected, 't') });
pass('the relay delivers new rows after the stream is created again');

# A key of another type replaces the stream: no notification is stored and no LSN is confirmed.
my $mark = $relay->log_mark;
$store->execute('DEL', $stream);
$store->execute('SET', $stream, 'mine');
insert('plain', 412, 431);
$relay->wait_for_log(qr/WRONGTYPE|not hold a stream|removed/, from => $mark);
$store->execute('DEL', $stream);
wait_until('all rows are stored once the key is removed', sub { stored_rows(412 .. 431) == 20 });
pass('rows that could not be stored stay in the slot');

# The client resumes from a cursor beyond the end of the stream.
my ($epoch) = $reconnected->wait_for('connected')->{pos} =~ /^(.*)\./;
my $unknown = $relay->client('u1', pos => "$epoch.18446744073709551615-18446744073709551615");
is($unknown->wait_for('gap')->{why}, 'epoch', 'an unknown cursor causes a gap');

done_testing();
