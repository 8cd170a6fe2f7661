# A user leaves and rejoins a group while a device has queued notifications because its in-flight window is full. Tests
# that it receives all of them, also the one that another device acknowledges meanwhile.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use JSON ();
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE own (id int PRIMARY KEY, owner text);
    CREATE TABLE team (id int PRIMARY KEY, team text);
    CREATE TABLE plain (id int PRIMARY KEY);
    SELECT clairon.watch('own', 'USER', 'owner', ack_required => true);
    SELECT clairon.watch('team', 'TEAM', 'team', ack_required => true);
    SELECT clairon.watch('plain', 'ALL')});
my $store  = Clairon::Test::store();
my @relays = (Clairon::Test::relay($pg, $store), Clairon::Test::relay(undef, $store, roles => 'gate'));
my $plain  = 0;

sub sql { my ($sql) = @_; return $pg->safe_psql('postgres', $sql) }
sub rows { my ($client, @tables) = @_;
    my %is = map { $_ => 1 } @tables;
    return map { $_->{payload}{after}{id} } grep { $is{ $_->{metadata}{source} } } $client->notifications }
# A gap may arrive before the notification that follows it.
sub ack { my ($client, $row) = @_;
    my @ids;
    $client->run_until("row $row arrives", sub {
        @ids = map { $_->{metadata}{id} } grep { $_->{metadata}{source} ne 'plain' && $_->{payload}{after}{id} == $row } $client->notifications });
    return $client->ack(@ids) }
sub leave { my ($user) = @_; return sql("DELETE FROM clairon.member WHERE user_id = '$user'") }
sub join_team { my ($user) = @_; return sql("INSERT INTO clairon.member VALUES ('TEAM', 't-$user', '$user')") }

# A notification without ack_required bypasses the queue: its cursor includes the queued notifications.
sub overtake
{
    my ($client) = @_;
    my $id = ++$plain;
    sql("INSERT INTO plain VALUES ($id)");
    return $client->run_until('the bypassing row arrives', sub { grep { $_ == $id } rows($client, 'plain') });
}

# The phone's in-flight window has one slot and is full. The rows of $commits are committed while the phone is
# disconnected. Then its user leaves the team: the phone resumes and skips the team's rows. The desktop, which stays
# connected, receives all rows.
sub with_a_full_window
{
    my ($user, $commits) = @_;
    join_team($user);
    my $phone = $relays[0]->client($user, win => 1);
    sql("INSERT INTO own VALUES (${\ $commits->{first} }, '$user')");
    $phone->run_until('the first notification arrives', sub { rows($phone, 'own') });
    my $pos = $phone->pos;
    $phone->close;
    my $desktop = $relays[1]->client($user);
    sql($_) for @{ $commits->{sql} };
    $desktop->run_until('all notifications arrive', sub { rows($desktop, 'own', 'team') == 1 + @{ $commits->{sql} } });
    leave($user);
    # Otherwise the user leaves while notifications wait, which may cause a gap.
    wait_until('the store has the change', sub { !$store->execute('SISMEMBER', $store->shared("members:TEAM:t-$user"), $user) });
    $phone = $relays[0]->client($user, win => 1, pos => $pos);
    overtake($phone);
    is_deeply([ rows($phone, 'own', 'team') ], [ $commits->{first} ], 'the in-flight window contains one notification');
    return ($phone, $desktop);
}

# The user rejoins while the phone is disconnected: its pending list has the same size, but contains other
# notifications.
{
    my ($phone, $desktop) = with_a_full_window('u1', { first => 1, sql => [ q{INSERT INTO own VALUES (2, 'u1')}, q{INSERT INTO team VALUES (3, 't-u1')} ] });
    my $pos = $phone->pos;
    $phone->close;
    ack($desktop, 2);
    wait_until('row 2 is acknowledged', sub { $store->pending == 2 });
    join_team('u1');
    overtake($desktop);
    $phone = $relays[0]->client('u1', win => 1, pos => $pos);
    is($phone->wait_for('connected')->{resumed}, JSON::true, 'a client whose other device acknowledged resumes');
    ack($phone, 1);
    $phone->run_until('row 2 arrives', sub { grep { $_ == 2 } rows($phone, 'own') });
    $phone->run_until('the row of the team arrives', sub { grep { $_ == 3 } rows($phone, 'team') });
    ack($phone, 3);
    wait_until('all notifications are acknowledged', sub { $store->pending == 0 });
    $_->close for $phone, $desktop;
    sql('DELETE FROM clairon.member');
}

# The scenario repeats while the phone stays connected.
{
    my ($phone, $desktop) = with_a_full_window('u2', { first => 11, sql => [ q{INSERT INTO own VALUES (12, 'u2')}, q{INSERT INTO team VALUES (13, 't-u2')}, q{INSERT INTO own VALUES (14, 'u2')} ] });
    join_team('u2');
    overtake($phone);
    ack($phone, 11);
    $phone->run_until('row 12 arrives', sub { grep { $_ == 12 } rows($phone, 'own') });
    ack($phone, 12);
    $phone->run_until('row 13 arrives', sub { grep { $_ == 13 } rows($phone, 'team') });
    overtake($phone);
    ack($desktop, 14);
    wait_until('row 14 is acknowledged', sub { $store->pending == 1 });
    ack($phone, 13);
    $phone->run_until('row 14 arrives', sub { grep { $_ == 14 } rows($phone, 'own') });
    is($phone->gaps, '', 'a connected client receives the row that its other device acknowledged');
    $_->close for $phone, $desktop;
}

done_testing();
