# A device with little room in its window asks for other topics, or comes back with others: is it shown what waited for room,
# or told that another device of its user acked some of it?
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
sub sees { my ($client, $row) = @_; return $client->run_until("row $row", sub { grep { $_ == $row } rows($client) }) }
sub ack { my ($client, $row) = @_;
    return $client->ack(map { $_->{metadata}{id} } grep { $_->{payload}{after}{id} == $row } $client->notifications) }
sub pending_is { my ($count) = @_; return wait_until("$count are pending", sub { $store->pending == $count }) }

# Rows 1, 2 and 4 are of a topic that the desk asks for, 3 of one that it does not; there is room for one. 5 needs no ack.
sub full
{
    my ($user) = @_;
    my $phone = $relays[0]->client($user);
    my $desk = $relays[1]->client($user, win => 1, pos => $phone->pos, topics => [ 'postgres.a', 'postgres.plain' ]);
    $pg->safe_psql('postgres', $_)
      for "INSERT INTO a VALUES (1, '$user'), (2, '$user')", "INSERT INTO b VALUES (3, '$user')",
      "INSERT INTO a VALUES (4, '$user')", 'INSERT INTO plain VALUES (5)';
    sees($_, 5) for $phone, $desk;
    is_deeply([ rows($desk) ], [ 1, 5 ], 'one finds room');
    return ($phone, $desk);
}

# All there was is acked and forgotten.
sub empty
{
    my ($phone, @others) = @_;
    ack($phone, $_) for 1 .. 4;
    pending_is(0);
    $pg->safe_psql('postgres', 'TRUNCATE a, b, plain');
    $_->close for $phone, @others;
    return;
}

# What was hidden before goes by what waits: it is not taken for a part of it.
my ($phone, $desk) = full('u1');
$desk->send({ t => 'subscribe', r => 1, topics => ['postgres.b'] });
$desk->wait_for('subscribed');
for my $row (1 .. 3)
{
    sees($desk, $row);
    if ($row == 3)
    {
        ack($phone, 4);
        pending_is(1);
    }
    ack($desk, $row);
}
pending_is(0);
$desk->run_until('a gap', sub { gaps($desk) });
is(gaps($desk), 'shed', 'who asked for more is told that what waited for room is gone');
empty($phone, $desk);

($phone, $desk) = full('u2');
my $pos = $desk->pos;
$desk->close;
ack($phone, 2);
pending_is(3);
$desk = $relays[0]->client('u2', pos => $pos);
is($desk->wait_for('connected')->{resumed}, JSON::false, 'who comes back for more has not resumed, if some of that is gone');
sees($desk, 4);
is(gaps($desk), 'shed', 'and is told so');
is_deeply([ rows($desk) ], [ 1, 3, 4 ], 'what is left is shown');
empty($phone, $desk);

# Nothing was acked by anybody else: there is nothing to tell, whatever is hidden.
($phone, $desk) = full('u3');
$desk->send({ t => 'unsubscribe', r => 1, topics => ['postgres.a'] });
$desk->wait_for('subscribed');
ack($desk, 1);
pending_is(3);
$pg->safe_psql('postgres', 'INSERT INTO plain VALUES (6)');
sees($desk, 6);
is(gaps($desk), '', 'who asks for less misses nothing');
empty($phone, $desk);

for my $topics ([], [ 'postgres.b', 'postgres.plain' ], [ 'postgres.a', 'postgres.plain' ])
{
    ($phone, $desk) = full('u4');
    $pos = $desk->pos;
    $desk->close;
    $desk = $relays[0]->client('u4', pos => $pos, @$topics ? (topics => $topics) : ());
    is($desk->wait_for('connected')->{resumed}, JSON::true, "who comes back for [@$topics] resumes");
    $pg->safe_psql('postgres', 'INSERT INTO plain VALUES (6)');
    sees($desk, 6);
    my @own = grep { my $topic = $_ == 3 ? 'postgres.b' : 'postgres.a'; !@$topics || grep { $_ eq $topic } @$topics } 1 .. 4;
    is_deeply([ rows($desk) ], [ @own, 6 ], 'and is shown what waited');
    is(gaps($desk), '', 'without a gap');
    empty($phone, $desk);
}

done_testing();
