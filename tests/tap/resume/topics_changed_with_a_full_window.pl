# A device has a full in-flight window and changes its topics, while connected or on reconnect. Tests that it receives
# the deferred notifications, also those that another device acknowledged meanwhile.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use JSON ();
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE a (id int PRIMARY KEY, owner text);
    CREATE TABLE b (id int PRIMARY KEY, owner text);
    CREATE TABLE plain (id int PRIMARY KEY);
    SELECT clairon.watch('a', 'USER', 'owner', ack_required => true);
    SELECT clairon.watch('b', 'USER', 'owner', ack_required => true);
    SELECT clairon.watch('plain', 'ALL')});
my $store  = Clairon::Test::store();
my @relays = (Clairon::Test::relay($pg, $store), Clairon::Test::relay(undef, $store, roles => 'gate'));

sub rows { my ($client) = @_; return map { $_->{payload}{after}{id} } $client->notifications }
sub gaps { my ($client) = @_; return join ' ', map { $_->{why} } grep { $_->{t} eq 'gap' } @{ $client->{messages} } }
sub wait_row { my ($client, $row) = @_; return $client->run_until("row $row arrives", sub { grep { $_ == $row } rows($client) }) }
sub ack { my ($client, $row) = @_;
    return $client->ack(map { $_->{metadata}{id} } grep { $_->{payload}{after}{id} == $row } $client->notifications) }
sub pending_is { my ($count) = @_; return wait_until("$count notifications are pending", sub { $store->pending == $count }) }

# Rows 1, 2 and 4 have a topic of the desktop, row 3 has another topic. The in-flight window has one slot. Row 5 has no
# ack_required.
sub clients_with_full_window
{
    my ($user) = @_;
    my $phone = $relays[0]->client($user);
    my $desktop = $relays[1]->client($user, win => 1, pos => $phone->pos, topics => [ 'postgres.a', 'postgres.plain' ]);
    $pg->safe_psql('postgres', $_)
      for "INSERT INTO a VALUES (1, '$user'), (2, '$user')", "INSERT INTO b VALUES (3, '$user')",
      "INSERT INTO a VALUES (4, '$user')", 'INSERT INTO plain VALUES (5)';
    wait_row($_, 5) for $phone, $desktop;
    is_deeply([ rows($desktop) ], [ 1, 5 ], 'the in-flight window contains one notification');
    return ($phone, $desktop);
}

# Acknowledges and deletes all rows.
sub empty
{
    my ($phone, @others) = @_;
    ack($phone, $_) for 1 .. 4;
    pending_is(0);
    $pg->safe_psql('postgres', 'TRUNCATE a, b, plain');
    $_->close for $phone, @others;
    return;
}

# A notification of a new topic is sent too, and nothing is lost.
my ($phone, $desktop) = clients_with_full_window('u1');
$desktop->send({ t => 'subscribe', r => 1, topics => ['postgres.b'] });
$desktop->wait_for('subscribed');
for my $row (1 .. 3)
{
    wait_row($desktop, $row);
    if ($row == 3)
    {
        ack($phone, 4);
        pending_is(1);
    }
    ack($desktop, $row);
}
pending_is(0);
wait_row($desktop, 4);
is(gaps($desktop), '', 'a row that another device acknowledged is sent after a subscribe');
empty($phone, $desktop);

($phone, $desktop) = clients_with_full_window('u2');
my $pos = $desktop->pos;
$desktop->close;
ack($phone, 2);
pending_is(3);
$desktop = $relays[0]->client('u2', pos => $pos);
is($desktop->wait_for('connected')->{resumed}, JSON::true, 'a client that reconnects with more topics resumes');
wait_row($desktop, 4);
is(gaps($desktop), '', 'a client that reconnects with more topics receives no gap');
is_deeply([ rows($desktop) ], [ 1 .. 4 ], 'all rows are delivered');
empty($phone, $desktop);

# Without acks of another device, there is no gap, regardless of the topics.
($phone, $desktop) = clients_with_full_window('u3');
$desktop->send({ t => 'unsubscribe', r => 1, topics => ['postgres.a'] });
$desktop->wait_for('subscribed');
ack($desktop, 1);
pending_is(3);
$pg->safe_psql('postgres', 'INSERT INTO plain VALUES (6)');
wait_row($desktop, 6);
is(gaps($desktop), '', 'an unsubscribe causes no gap');
empty($phone, $desktop);

for my $topics ([], [ 'postgres.b', 'postgres.plain' ], [ 'postgres.a', 'postgres.plain' ])
{
    ($phone, $desktop) = clients_with_full_window('u4');
    $pos = $desktop->pos;
    $desktop->close;
    $desktop = $relays[0]->client('u4', pos => $pos, @$topics ? (topics => $topics) : ());
    is($desktop->wait_for('connected')->{resumed}, JSON::true, "a reconnect with [@$topics] resumes");
    $pg->safe_psql('postgres', 'INSERT INTO plain VALUES (6)');
    wait_row($desktop, 6);
    my @own = grep { my $topic = $_ == 3 ? 'postgres.b' : 'postgres.a'; !@$topics || grep { $_ eq $topic } @$topics } 1 .. 4;
    is_deeply([ rows($desktop) ], [ @own, 6 ], "a reconnect with [@$topics] receives the queued rows");
    is(gaps($desktop), '', "a reconnect with [@$topics] receives no gap");
    empty($phone, $desktop);
}

done_testing();
