# A device has a full in-flight window and reconnects with the cursor of a notification that overtook the deferred ones.
# Tests that it receives the deferred notifications, also those that another device acknowledged meanwhile.
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

# The phone acknowledges deferred rows of the desktop. The desktop reconnects to either relay, even after its relay was
# killed.
for my $i (0, 1, 2)
{
    ($phone, $pos, $from) = disconnect_with_full_window("u3$i");
    ack($phone, $from + 3);
    wait_until('one ack is stored', sub { $store->pending == 5 });
    if ($i == 2) { $relays[1]->kill9; $relays[1]->start; $relays[1]->wait_ready }
    $desktop = $relays[$i % 2]->client("u3$i", win => 2, pos => $pos);
    is($desktop->wait_for('connected')->{resumed}, JSON::true, 'the session resumes');
    for my $count (2, 5, 6)
    {
        $desktop->run_until("$count rows arrive", sub { rows($desktop) >= $count });
        ack($desktop, grep { $_ != $from + 3 } rows($desktop));
    }
    all_acked();
    is_deeply([ rows($desktop) ], [ $from .. $from + 5 ], 'the session receives all rows in order');
    my ($id) = map { $_->{metadata}{id} } grep { $_->{payload}{after}{id} == $from + 3 } $desktop->notifications;
    $desktop->run_until('acked follows', sub { grep { $_->{t} eq 'acked' && grep { $_ eq $id } @{ $_->{ids} } } @{ $desktop->{messages} } });
    is($desktop->gaps, '', 'the session receives no gap');
    $_->close for $desktop, $phone;
}

# Polls receive the deferred rows too, and lose no row without ack_required.
($phone, $pos, $from) = disconnect_with_full_window('u4');
$pg->safe_psql('postgres', 'INSERT INTO plain VALUES (1001)');
ack($phone, $from + 2);
wait_until('one ack is stored', sub { $store->pending == 5 });
my $body = '';
for (1 .. 6)
{
    my $response = poll($pos);
    $body .= $response->{body} // '';
    $pos = $response->{headers}{'clairon-pos'};
}
unlike($body, qr/"t":"gap"/, 'a poll returns no gap');
like($body, qr/"id":$_\b/, "a poll returns row $_") for $from + 2 .. $from + 5, 1001;

done_testing();
