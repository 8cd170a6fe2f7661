# Tests a row whose newer version another device has acknowledged: afterwards, no session receives an older version as a
# first delivery.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use JSON ();
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, version int, owner text);
    CREATE TABLE plain (id int PRIMARY KEY);
    SELECT clairon.watch('t', 'USER', 'owner', ack_required => true);
    SELECT clairon.watch('plain', 'ALL')});
my $store  = Clairon::Test::store();
my @relays = (Clairon::Test::relay($pg, $store), Clairon::Test::relay(undef, $store, roles => 'gate'));
my $last   = 0;

sub rows { my ($client) = @_; return grep { $_->{metadata}{source} eq 't' } $client->notifications }
sub name_of { my ($notification) = @_; my $row = $notification->{payload}{after}; return "$row->{id}.$row->{version}" }
sub received { return join ' ', map { name_of($_) } rows($_[0]) }
sub ack { my ($client, $name) = @_;
    $client->run_until("$name is delivered", sub { grep { name_of($_) eq $name } rows($client) });
    return $client->ack(map { $_->{metadata}{id} } grep { name_of($_) eq $name } rows($client)) }
sub insert { my ($user, $count) = @_;
    my @ids = map { ++$last } 1 .. $count;
    $pg->safe_psql('postgres', "INSERT INTO t SELECT i, 1, '$user' FROM generate_series($ids[0], $ids[-1]) i");
    return @ids }
sub deliver_plain { my ($client) = @_;
    $pg->safe_psql('postgres', 'INSERT INTO plain VALUES (' . ++$last . ')');
    my $id = $last;
    return $client->run_until('a plain row arrives', sub { grep { $_->{metadata}{source} eq 'plain' && $_->{payload}{after}{id} == $id } $client->notifications }) }
sub pending_is { my ($count) = @_; return wait_until("$count notifications are pending", sub { $store->pending == $count }) }

# Returns the older versions that followed newer versions without a retry mark.
sub faults
{
    my ($client) = @_;
    my (%newest, @faults);
    for my $notification (rows($client))
    {
        my $row = $notification->{payload}{after};
        push @faults, name_of($notification) if $row->{version} < ($newest{ $row->{id} } // 0) && !$notification->{routing}{retry}{attempts};
        $newest{ $row->{id} } = $row->{version} if $row->{version} > ($newest{ $row->{id} } // 0);
    }
    return "@faults";
}

# A device has a full in-flight window and queued rows. Another device acknowledges one of them while the first device
# is disconnected.
for my $relay (@relays)
{
    my $user = "u$last";
    my $phone = $relays[0]->client($user);
    my $desktop = $relays[0]->client($user, win => 1);
    my ($first, $other, $row) = insert($user, 3);
    deliver_plain($desktop);
    my $pos = $desktop->pos;
    $desktop->close;
    ack($phone, "$other.1");
    pending_is(2);
    $pg->safe_psql('postgres', "UPDATE t SET version = 2 WHERE id = $row");
    ack($phone, "$row.2");
    pending_is(2);
    $desktop = $relay->client($user, win => 1, pos => $pos);
    is($desktop->wait_for('connected')->{resumed}, JSON::true, 'a session resumes although another device acknowledged some of its rows');
    deliver_plain($desktop);
    ack($desktop, "$first.1");
    ack($desktop, "$row.1");
    pending_is(0);
    deliver_plain($desktop);
    is(faults($desktop), '', 'no older version is delivered without a retry mark after a newer version');
    is(received($desktop), "$first.1 $other.1 $row.1 $row.2", 'rows acknowledged by another device are sent in order');
    is($desktop->gaps, '', 'there is no gap');
    $_->close for $phone, $desktop;
}

# A new session has more rows in the pending list than its in-flight window allows.
{
    my $phone = $relays[0]->client('new');
    my ($first, $row) = insert('new', 2);
    $phone->run_until('both notifications arrive', sub { rows($phone) == 2 });
    my $desktop = $relays[1]->client('new', win => 1);
    $desktop->run_until('the first notification arrives', sub { rows($desktop) == 1 });
    kill STOP => $relays[1]{pid};
    $pg->safe_psql('postgres', "UPDATE t SET version = 2 WHERE id = $row");
    ack($phone, "$row.2");
    pending_is(2);
    kill CONT => $relays[1]{pid};
    deliver_plain($desktop);
    ack($desktop, "$first.1");
    ack($desktop, "$row.1");
    pending_is(0);
    deliver_plain($desktop);
    is(faults($desktop), '', 'a session whose pending list exceeds its in-flight window receives the versions in order');
    is(received($desktop), "$first.1 $row.1 $row.2", 'later rows do not overtake the pending list');
    is($desktop->gaps, '', 'there is no gap');
    $_->close for $phone, $desktop;
}

# A user who rejoins a group receives the group's pending rows after a newer version that was sent to another group.
{
    $pg->safe_psql('postgres', q{
        CREATE TABLE teams (id int PRIMARY KEY, version int, team text);
        ALTER TABLE teams REPLICA IDENTITY FULL;
        SELECT clairon.watch('teams', 'TEAM', 'team', ack_required => true);
        INSERT INTO clairon.member VALUES ('TEAM', 'a', 'm'), ('TEAM', 'b', 'm')});
    my $members = sub { $store->execute('SCARD', $store->shared('groups:m')) };
    wait_until('the user is a member of both groups', sub { $members->() == 2 });
    $pg->safe_psql('postgres', q{INSERT INTO teams VALUES (1, 1, 'a')});
    $pg->safe_psql('postgres', q{DELETE FROM clairon.member WHERE target = 'a'});
    wait_until('the user is a member of one group', sub { $members->() == 1 });
    my $client = $relays[0]->client('m');
    $pg->safe_psql('postgres', q{UPDATE teams SET version = 2, team = 'b'});
    my $versions = sub { join ' ', map { "$_->{payload}{after}{version}:$_->{routing}{retry}{attempts}" } grep { $_->{payload}{after} } $client->notifications };
    $client->run_until('the newer version arrives', sub { $versions->() eq '2:0' });
    $pg->safe_psql('postgres', q{INSERT INTO clairon.member VALUES ('TEAM', 'a', 'm')});
    $client->run_until('the older version arrives', sub { $versions->() =~ / / });
    is($versions->(), '2:0 1:1', 'a late older version is marked as a retry');
    my ($raw) = grep { /"version":1/ } @{ $client->{raw} };
    like($raw, qr/"attempts":1,"limit":5,"backoff":"EXPONENTIAL"\}\}\}\}$/, 'the late version has no other changes');
    $client->close;
}

done_testing();
