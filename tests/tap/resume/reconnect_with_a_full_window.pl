# A device has a full in-flight window and reconnects with the cursor of a notification that bypassed its queue. Tests
# that it receives the queued notifications, or a gap for queued notifications that another device acknowledged.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    CREATE TABLE plain (id int PRIMARY KEY);
    SELECT clairon.watch('t', 'USER', 'owner', ack_required => true);
    SELECT clairon.watch('plain', 'ALL')});
my $store  = Clairon::Test::store();
my @relays = (Clairon::Test::relay($pg, $store), Clairon::Test::relay(undef, $store, roles => 'gate'));
my $last   = 0;

sub rows { my ($client, $table) = @_;
    return map { $_->{payload}{after}{id} } grep { $_->{metadata}{source} eq ($table // 't') } $client->notifications }
sub ack { my ($client, @rows) = @_;
    my %is = map { $_ => 1 } @rows;
    return $client->ack(map { $_->{metadata}{id} } grep { $_->{metadata}{source} eq 't' && $is{ $_->{payload}{after}{id} } } $client->notifications) }

# Six rows are for a user whose desktop has an in-flight window of two, and one row for ALL bypasses them.
sub disconnect_with_full_window
{
    my ($user, %args) = @_;
    my $from = $last + 1;
    my $phone = $relays[0]->client($user);
    my $desktop = $relays[1]->client($user, win => 2, pos => $phone->pos, %args);
    $last += 6;
    $pg->safe_psql('postgres', qq{
        INSERT INTO t SELECT i, '$user' FROM generate_series($from, $last) i;
        INSERT INTO plain VALUES ($from)});
    $desktop->run_until('the row without ack_required arrives', sub { rows($desktop, 'plain') });
    is_deeply([ rows($desktop) ], [ $from, $from + 1 ], 'the in-flight window is full');
    $phone->run_until('all rows arrive', sub { rows($phone) == 6 });
    my $pos = $desktop->pos;
    $desktop->close;
    return ($phone, $pos, $from);
}

sub poll { my ($from) = @_;
    return Clairon::Test::RawSocket->new($relays[0])->request(GET => "/v1/poll?wait=1&max=2&pos=$from",
        Authorization => 'Bearer ' . Clairon::Test::token(sub => 'u4')) }
sub all_acked { return wait_until('all notifications are acknowledged', sub { $store->pending == 0 }) }

# No row is acknowledged while the device is disconnected.
my ($phone, $pos, $from) = disconnect_with_full_window('u1');
my $desktop = $relays[0]->client('u1', win => 2, pos => $pos);
is($desktop->wait_for('connected')->{resumed}, JSON::true, 'a reconnecting device resumes');
for my $i (0 .. 2)
{
    $desktop->run_until('two more rows arrive', sub { rows($desktop) == 2 * $i + 2 });
    ack($desktop, rows($desktop));
}
all_acked();
is_deeply([ rows($desktop) ], [ $from .. $from + 5 ], 'the device receives the queued rows in order');
$pg->safe_psql('postgres', 'INSERT INTO plain VALUES (1000)');
$desktop->run_until('the row without ack_required arrives', sub { rows($desktop, 'plain') });
is($desktop->gaps, '', 'the device receives no gap');
unlike($desktop->pos, qr/~/, 'the cursor contains no queued rows after the queue is empty');
$_->close for $desktop, $phone;

# The phone acknowledges rows that the desktop has received.
($phone, $pos, $from) = disconnect_with_full_window('u2');
ack($phone, $from, $from + 1);
wait_until('two acks are stored', sub { $store->pending == 4 });
$desktop = $relays[0]->client('u2', win => 2, pos => $pos);
is($desktop->wait_for('connected')->{resumed}, JSON::true,
    'a device resumes although another device acknowledged delivered rows');
for my $i (0, 1)
{
    $desktop->run_until('two more rows arrive', sub { rows($desktop) == 2 * $i + 2 });
    ack($desktop, rows($desktop));
}
all_acked();
is_deeply([ rows($desktop) ], [ $from + 2 .. $from + 5 ], 'the remaining rows are delivered');
is($desktop->gaps, '', 'acknowledgements by another device cause no gap');
$_->close for $desktop, $phone;

# The phone acknowledges queued rows of the desktop. The desktop reconnects to either relay, even after its relay was
# killed.
for my $i (0, 1, 2)
{
    ($phone, $pos, $from) = disconnect_with_full_window("u3$i");
    ack($phone, $from + 3);
    wait_until('one ack is stored', sub { $store->pending == 5 });
    if ($i == 2) { $relays[1]->kill9; $relays[1]->start; $relays[1]->wait_ready }
    $desktop = $relays[$i % 2]->client("u3$i", win => 2, pos => $pos);
    is($desktop->wait_for('connected')->{resumed}, JSON::false, 'a session that missed a row does not resume');
    $desktop->run_until('the gap arrives', sub { $desktop->gaps });
    is($desktop->gaps, 'shed', 'a session that missed a row receives a gap');
    $desktop->run_until('the unacknowledged rows arrive', sub { rows($desktop) == 2 });
    ack($desktop, rows($desktop));
    $desktop->run_until('two more rows arrive', sub { rows($desktop) == 4 });
    ack($desktop, rows($desktop));
    $desktop->run_until('the last notification arrives', sub { rows($desktop) == 5 });
    ack($desktop, rows($desktop));
    all_acked();
    is_deeply([ rows($desktop) ], [ map { $from + $_ } 0 .. 2, 4, 5 ], 'a session that missed a row receives the remaining rows');
    is($desktop->gaps, 'shed', 'a session that missed a row receives one gap');
    $_->close for $desktop, $phone;
}

# After a loss, a poll continues from the gap and loses no row without ack_required.
($phone, $pos, $from) = disconnect_with_full_window('u4');
$pg->safe_psql('postgres', 'INSERT INTO plain VALUES (1001)');
ack($phone, $from + 2);
wait_until('one ack is stored', sub { $store->pending == 5 });
my $response = poll($pos);
like($response->{body}, qr/"why":"shed"/, 'a poll returns the gap');
my $body = $response->{body};
for (1 .. 3)
{
    $response = poll($response->{headers}{'clairon-pos'});
    $body .= $response->{body} // '';
}
like($body, qr/"id":1001\b/, 'the next poll returns the row after the gap');

done_testing();
