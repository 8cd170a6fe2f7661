# Tests memberships that change while a store reply is in transit. After a late reply, a user without access receives
# neither earlier nor later notifications.
use strict;
use warnings;

use Clairon::Test qw(wait_until of_mark);
use Clairon::Test::Client;
use Test::More;

my $pg = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $prompt = Clairon::Test::relay($pg, $store);
my $late   = Clairon::Test::delayed_replies($store->{socket});
my $relay  = Clairon::Test::relay(undef, $late, roles => 'gate');
my $marks  = 0;

sub notify { my ($audience, $target, $mark, $more) = @_;
    return $pg->safe_psql('postgres', "SELECT clairon.notify('$audience', '{$target}', '{\"mark\": \"$mark\"}'" . join(', ', '', $more || ()) . ')') }
sub members { return scalar @{ $store->execute('SMEMBERS', $store->shared("members:TEAM:$_[0]")) } }
sub member { my ($team, $user, $is_member) = @_;
    my $before = members($team);
    $pg->safe_psql('postgres', $is_member ? "INSERT INTO clairon.member VALUES ('TEAM', '$team', '$user')"
        : "DELETE FROM clairon.member WHERE target = '$team' AND user_id = '$user'");
    return wait_until('the store has the membership', sub { members($team) != $before }) }

# The delayed relay reads all commits so far, without waiting for delayed replies.
sub wait_read
{
    my $read = $relay->metric('clairon_hub_notifications_total');
    notify('USER', 'nobody', 'read');
    return wait_until('the relay has read the commit', sub { $relay->metric('clairon_hub_notifications_total') > $read });
}

# Returns the frames that the relay sent to this client for earlier commits; a marker notification marks the end.
sub received_so_far
{
    my ($client, $user) = @_;
    my $mark = 'mark' . ++$marks;
    notify('USER', $user, $mark);
    $client->run_until('the marker notification arrives', sub { of_mark($client, $mark) });
    return map { $_->{payload}{mark} } $client->notifications;
}

# Returns a client that has sent `connect` and has not received a response.
sub begin
{
    my ($user) = @_;
    my $client = Clairon::Test::Client->new($relay->url('/v1/ws'));
    $client->send({ t => 'connect', r => 1, token => Clairon::Test::token(sub => $user) });
    return $client;
}

# A membership ends while the relay reads memberships at connect.
{
    member('t1', 'u1', 1);
    $late->hold(groups => 'SMEMBERS clairon(:.0.)?:groups:u1$');
    my $client = begin('u1');
    $late->wait_held('groups');
    member('t1', 'u1', 0);
    wait_read();
    $late->release('groups');
    $client->wait_for('connected');
    notify('TEAM', 't1', 'secret');
    ok(!(grep { $_ eq 'secret' } received_so_far($client, 'u1')), 'a membership that ended while memberships were read at connect is ignored');
    $client->close;
}

# Acks that arrive before the reply are announced after `connected`.
{
    my ($one, $two) = map { $relay->client('u2') } 1, 2;
    my $id = notify('USER', 'u2', 'pending', 'ack_required => true');
    $_->run_until('the notification arrives', sub { of_mark($_, 'pending') }) for $one, $two;
    $late->hold(groups => 'SMEMBERS clairon(:.0.)?:groups:u2$');
    my $client = begin('u2');
    $late->wait_held('groups');
    $one->ack($id);
    $two->wait_for('acked');
    $late->release('groups');
    $client->wait_for('connected');
    is($client->{messages}[0]{t}, 'connected', 'no frame precedes `connected`');
    $_->close for $one, $two, $client;
}

# The in-flight window is full, so the relay checks in the store whether the notification is pending. Another device
# acknowledges it, and the user leaves the group before the reply arrives.
{
    member('t3', 'u3', 1);
    my $phone = $prompt->client('u3');
    my $desktop = $relay->client('u3', win => 1);
    my $first = notify('USER', 'u3', 'first', 'ack_required => true');
    $desktop->run_until('the first notification arrives', sub { of_mark($desktop, 'first') });
    $late->hold(reader => '^XREAD ');
    my $id = notify('TEAM', 't3', 'secret', 'ack_required => true');
    $late->wait_held('reader');
    $phone->run_until('the notification arrives', sub { of_mark($phone, 'secret') });
    $phone->ack($id);
    wait_until('the ack is stored', sub { !$store->execute('HEXISTS', $store->of($id, 'pending'), $id) });
    $late->hold(report => $late->script('report'));
    $late->release('reader');
    $late->wait_held('report');
    member('t3', 'u3', 0);
    wait_read();
    $late->release('report');
    $relay->client('u3b')->close;    # this reply follows the delayed reply
    ok(!(grep { $_ eq 'secret' } received_so_far($desktop, 'u3')), 'a delayed notification is withheld from a user who left the group');
    $desktop->ack($first);
    $_->close for $phone, $desktop;
}

# The relay reads memberships again after its store reader reconnects.
sub reader_reconnected
{
    my ($user, $away) = @_;
    $late->hold(groups => "SMEMBERS clairon(:.0.)?:groups:$user\$");
    $late->reject(1);
    $late->cut_link('^XREAD ');
    $away->();
    $late->reject(0);
    return $late->wait_held('groups');
}

{
    member('t4', 'u4', 1);
    my $client = $relay->client('u4');
    reader_reconnected('u4', sub { member('t4', 'u4', 0); notify('TEAM', 't4', 'secret') });
    wait_read();
    $client->send({ t => 'subscribe', r => 2, topics => ['*'] });
    $client->wait_for('subscribed');
    $client->send({ t => 'subscribe', r => 3, topics => ['*'] });
    $client->wait_for(sub { ($_[0]{r} // 0) == 3 });
    $late->release('groups');
    ok(!(grep { $_ eq 'secret' } received_so_far($client, 'u4')),
        'the relay does not use outdated memberships while it reads them again');
    $client->close;
}

{
    member('t5', 'u5', 1);
    my $client = $relay->client('u5');
    reader_reconnected('u5', sub { });
    member('t5', 'u5', 0);
    wait_read();
    $late->release('groups');
    received_so_far($client, 'u5');
    notify('TEAM', 't5', 'secret');
    ok(!(grep { $_ eq 'secret' } received_so_far($client, 'u5')),
        'the relay repeats a request whose reply predates a membership change');
    $client->close;
}

done_testing();
