# A device with little room in its window goes away and comes back with the position of what went past: does it get what
# waited for room, or hear that another device of its user acked some of that meanwhile?
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

# Six rows for a user, of which his desk has room for two, and one for everybody that goes past the others.
sub away
{
    my ($user, %args) = @_;
    my $from = $last + 1;
    my $phone = $relays[0]->client($user);
    my $desk = $relays[1]->client($user, win => 2, pos => $phone->pos, %args);
    $last += 6;
    $pg->safe_psql('postgres', qq{
        INSERT INTO t SELECT i, '$user' FROM generate_series($from, $last) i;
        INSERT INTO plain VALUES ($from)});
    $desk->run_until('what went past', sub { rows($desk, 'plain') });
    is_deeply([ rows($desk) ], [ $from, $from + 1 ], 'a window is full');
    $phone->run_until('all', sub { rows($phone) == 6 });
    my $pos = $desk->pos;
    $desk->close;
    return ($phone, $pos, $from);
}

sub poll { my ($from) = @_;
    return Clairon::Test::RawSocket->new($relays[0])->request(GET => "/v1/poll?wait=1&max=2&pos=$from",
        Authorization => 'Bearer ' . Clairon::Test::token(sub => 'u4')) }
sub all_acked { return wait_until('all are acked', sub { $store->pending == 0 }) }

# Nobody acks meanwhile.
my ($phone, $pos, $from) = away('u1');
my $desk = $relays[0]->client('u1', win => 2, pos => $pos);
is($desk->wait_for('connected')->{resumed}, JSON::true, 'who comes back resumes');
for my $i (0 .. 2)
{
    $desk->run_until('two more', sub { rows($desk) == 2 * $i + 2 });
    ack($desk, rows($desk));
}
all_acked();
is_deeply([ rows($desk) ], [ $from .. $from + 5 ], 'and is shown what waited for room, in order');
$pg->safe_psql('postgres', 'INSERT INTO plain VALUES (1000)');
$desk->run_until('what comes', sub { rows($desk, 'plain') });
is($desk->gaps, '', 'without a gap');
unlike($desk->pos, qr/~/, 'then a position tells of nothing more');
$_->close for $desk, $phone;

# The phone acks what the desk has.
($phone, $pos, $from) = away('u2');
ack($phone, $from, $from + 1);
wait_until('two are acked', sub { $store->pending == 4 });
$desk = $relays[0]->client('u2', win => 2, pos => $pos);
is($desk->wait_for('connected')->{resumed}, JSON::true, 'what was shown may be acked by another device');
for my $i (0, 1)
{
    $desk->run_until('two more', sub { rows($desk) == 2 * $i + 2 });
    ack($desk, rows($desk));
}
all_acked();
is_deeply([ rows($desk) ], [ $from + 2 .. $from + 5 ], 'the others follow');
is($desk->gaps, '', 'without a gap');
$_->close for $desk, $phone;

# The phone acks what the desk had no room for; it comes back to either relay, also after the one it had has died.
for my $i (0, 1, 2)
{
    ($phone, $pos, $from) = away("u3$i");
    ack($phone, $from + 3);
    wait_until('one is acked', sub { $store->pending == 5 });
    if ($i == 2) { $relays[1]->kill9; $relays[1]->start; $relays[1]->wait_ready }
    $desk = $relays[$i % 2]->client("u3$i", win => 2, pos => $pos);
    is($desk->wait_for('connected')->{resumed}, JSON::false, 'who missed something has not resumed');
    $desk->run_until('the gap', sub { $desk->gaps });
    is($desk->gaps, 'shed', 'and is told so');
    $desk->run_until('what is not acked', sub { rows($desk) == 2 });
    ack($desk, rows($desk));
    $desk->run_until('two more', sub { rows($desk) == 4 });
    ack($desk, rows($desk));
    $desk->run_until('the last', sub { rows($desk) == 5 });
    ack($desk, rows($desk));
    all_acked();
    is_deeply([ rows($desk) ], [ map { $from + $_ } 0 .. 2, 4, 5 ], 'and shown what is left');
    is($desk->gaps, 'shed', 'told once');
    $_->close for $desk, $phone;
}

# A poll likewise; it goes on from there, and misses nothing that needs no ack.
($phone, $pos, $from) = away('u4');
$pg->safe_psql('postgres', 'INSERT INTO plain VALUES (1001)');
ack($phone, $from + 2);
wait_until('one is acked', sub { $store->pending == 5 });
my $answer = poll($pos);
like($answer->{body}, qr/"why":"shed"/, 'a poll is told');
my $body = $answer->{body};
for (1 .. 3)
{
    $answer = poll($answer->{headers}{'clairon-pos'});
    $body .= $answer->{body} // '';
}
like($body, qr/"id":1001\b/, 'and shown what came behind');

done_testing();
