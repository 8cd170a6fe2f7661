# A device with a full window reconnects with the cursor of a notification that bypassed its queue. Tests that it
# receives the queued ones, or a gap for those that another device acknowledged.
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

# Six rows for a user whose desk has a window of two, and one row for all that bypasses them.
sub disconnect_with_full_window
{
    my ($user, %args) = @_;
    my $from = $last + 1;
    my $phone = $relays[0]->client($user);
    my $desk = $relays[1]->client($user, win => 2, pos => $phone->pos, %args);
    $last += 6;
    $pg->safe_psql('postgres', qq{
        INSERT INTO t SELECT i, '$user' FROM generate_series($from, $last) i;
        INSERT INTO plain VALUES ($from)});
    $desk->run_until('the row without ack_required', sub { rows($desk, 'plain') });
    is_deeply([ rows($desk) ], [ $from, $from + 1 ], 'the window is full');
    $phone->run_until('all rows', sub { rows($phone) == 6 });
    my $pos = $desk->pos;
    $desk->close;
    return ($phone, $pos, $from);
}

sub poll { my ($from) = @_;
    return Clairon::Test::RawSocket->new($relays[0])->request(GET => "/v1/poll?wait=1&max=2&pos=$from",
        Authorization => 'Bearer ' . Clairon::Test::token(sub => 'u4')) }
sub all_acked { return wait_until('all acknowledged', sub { $store->pending == 0 }) }

# Nothing is acknowledged during the absence.
my ($phone, $pos, $from) = disconnect_with_full_window('u1');
my $desk = $relays[0]->client('u1', win => 2, pos => $pos);
is($desk->wait_for('connected')->{resumed}, JSON::true, 'a reconnecting device resumes');
for my $i (0 .. 2)
{
    $desk->run_until('two more', sub { rows($desk) == 2 * $i + 2 });
    ack($desk, rows($desk));
}
all_acked();
is_deeply([ rows($desk) ], [ $from .. $from + 5 ], 'and receives the queued rows in order');
$pg->safe_psql('postgres', 'INSERT INTO plain VALUES (1000)');
$desk->run_until('the row without ack_required', sub { rows($desk, 'plain') });
is($desk->gaps, '', 'without a gap');
unlike($desk->pos, qr/~/, 'the cursor then records no queued rows');
$_->close for $desk, $phone;

# The phone acknowledges rows that the desk has received.
($phone, $pos, $from) = disconnect_with_full_window('u2');
ack($phone, $from, $from + 1);
wait_until('two acks', sub { $store->pending == 4 });
$desk = $relays[0]->client('u2', win => 2, pos => $pos);
is($desk->wait_for('connected')->{resumed}, JSON::true, 'delivered rows may be acknowledged by another device');
for my $i (0, 1)
{
    $desk->run_until('two more', sub { rows($desk) == 2 * $i + 2 });
    ack($desk, rows($desk));
}
all_acked();
is_deeply([ rows($desk) ], [ $from + 2 .. $from + 5 ], 'the others follow');
is($desk->gaps, '', 'without a gap');
$_->close for $desk, $phone;

# The phone acknowledges queued rows of the desk, which reconnects to either relay, also after its relay was killed.
for my $i (0, 1, 2)
{
    ($phone, $pos, $from) = disconnect_with_full_window("u3$i");
    ack($phone, $from + 3);
    wait_until('one ack', sub { $store->pending == 5 });
    if ($i == 2) { $relays[1]->kill9; $relays[1]->start; $relays[1]->wait_ready }
    $desk = $relays[$i % 2]->client("u3$i", win => 2, pos => $pos);
    is($desk->wait_for('connected')->{resumed}, JSON::false, 'a session with a loss is not resumed');
    $desk->run_until('the gap', sub { $desk->gaps });
    is($desk->gaps, 'shed', 'and gets a gap');
    $desk->run_until('the unacknowledged rows', sub { rows($desk) == 2 });
    ack($desk, rows($desk));
    $desk->run_until('two more', sub { rows($desk) == 4 });
    ack($desk, rows($desk));
    $desk->run_until('the last', sub { rows($desk) == 5 });
    ack($desk, rows($desk));
    all_acked();
    is_deeply([ rows($desk) ], [ map { $from + $_ } 0 .. 2, 4, 5 ], 'and receives the remaining rows');
    is($desk->gaps, 'shed', 'one gap');
    $_->close for $desk, $phone;
}

# The same with polls: a poll continues after the gap and loses no row without ack_required.
($phone, $pos, $from) = disconnect_with_full_window('u4');
$pg->safe_psql('postgres', 'INSERT INTO plain VALUES (1001)');
ack($phone, $from + 2);
wait_until('one ack', sub { $store->pending == 5 });
my $answer = poll($pos);
like($answer->{body}, qr/"why":"shed"/, 'a poll returns the gap');
my $body = $answer->{body};
for (1 .. 3)
{
    $answer = poll($answer->{headers}{'clairon-pos'});
    $body .= $answer->{body} // '';
}
like($body, qr/"id":1001\b/, 'and the following row');

done_testing();
