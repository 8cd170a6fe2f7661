# Tests that a connection receives its topics live, on resume and from the pending list, and that other connections miss no
# notification.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE a (id int PRIMARY KEY, owner text);
    CREATE TABLE b (id int PRIMARY KEY, owner text);
    CREATE TABLE due (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('a', 'USER', 'owner');
    SELECT clairon.watch('b', 'ALL');
    SELECT clairon.watch('due', 'USER', 'owner', ack_required => true)});
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store, conf => { 'feed.topic_prefix' => 'p' });
my $next  = 0;

# Inserts one row into each of the tables in one transaction; returns its id.
sub insert
{
    my (@tables) = @_;
    $next++;
    $pg->safe_psql('postgres', join ';', 'BEGIN', (map { "INSERT INTO $_ VALUES ($next, 'u1')" } @tables), 'COMMIT');
    return $next;
}

# The rows that the client received, as "a1 b1".
sub received { return join ' ', map { "$_->{metadata}{source}$_->{payload}{after}{id}" } $_[0]->notifications }

sub request
{
    my ($client, $t, $r, @topics) = @_;
    $client->send({ t => $t, r => $r, topics => \@topics });
    my $line = $client->wait_for(sub { ($_[0]{r} // 0) == $r && $_[0]{t} =~ /^(subscribed|err)$/ });
    return $line->{t} eq 'err' ? $line->{code} : join ' ', @{ $line->{topics} };
}

# Waits until the client without a filter has every row up to $id.
my $all = $relay->client('u1', win => 64);
sub wait_all_received
{
    my ($id, $table) = @_;
    $all->run_until("row $id arrives", sub { received($all) =~ /\b$table$id\b/ });
    return;
}

my $some = $relay->client('u1');
is(request($some, subscribe => 3, 'p.a'), 'p.a', 'subscribe returns the subscribed topics');
my $id = insert('b', 'a');
$some->run_until('the row arrives', sub { received($some) =~ /\ba$id\b/ });
is(received($some), 'a1', 'only that topic is delivered');
wait_all_received(1, 'a');
is(received($all), 'b1 a1', 'a client without a subscription receives all topics');
is(request($some, subscribe => 4, 'p.b*', 'p.a'), 'p.a p.b*', 'a second subscribe adds topics without duplicates');
insert('b', 'a');
$some->run_until('both rows arrive', sub { received($some) =~ /a2/ });
is(received($some), 'a1 b2 a2', 'the topics of both subscribes are delivered in order');
is(request($some, unsubscribe => 5, 'p.a', 'p.never'), 'p.b*', 'unsubscribe returns the remaining topics');
insert('a', 'b');
$some->run_until('the row arrives', sub { received($some) =~ /b3/ });
is(received($some), 'a1 b2 a2 b3', 'unsubscribed topics are not delivered');
is(request($some, unsubscribe => 6, 'p.b*'), '', 'the list of topics is empty after the last unsubscribe');
insert('a', 'b');
wait_all_received(4, 'b');
is(request($some, subscribe => 7, '*'), '*', 'a subscription to * includes all topics again');
insert('a');
$some->run_until('the row arrives', sub { received($some) =~ /a5/ });
is(received($some), 'a1 b2 a2 b3 a5', 'filtered notifications without ack_required are not delivered later');

# A connection resumes from a cursor with the topics of its connect frame.
my $pos    = $some->pos;
insert('a', 'b') for 1 .. 3;
my $resumed = $relay->client('u1', pos => $pos, topics => ['p.b']);
insert('a', 'b');
$resumed->run_until('the last row arrives', sub { received($resumed) =~ /b9/ });
is(received($resumed), 'b6 b7 b8 b9', 'a resume delivers missed notifications of the topics in the connect frame');

# Filtered notifications with ack_required stay pending and do not occupy the in-flight window.
$_->close for $some, $resumed, $all;
my $narrow = $relay->client('u1', win => 2, topics => ['p.a']);
insert('due') for 1 .. 5;
$id = insert('a');
$narrow->run_until('the row arrives', sub { received($narrow) =~ /a$id/ });
is(received($narrow), "a$id", 'filtered notifications with ack_required do not block other notifications');
is($store->pending, 5, 'filtered notifications with ack_required are pending');
my $again = $relay->client('u1', win => 2, topics => ['p.a']);
$id = insert('a');
$again->run_until('the row arrives', sub { received($again) =~ /a$id/ });
is(received($again), "a$id", 'a new connection with the same topics does not receive filtered notifications');
is(request($again, subscribe => 8, 'p.due'), 'p.a p.due', 'a later subscribe returns both topics');
my $done = 0;
while ($done < 5)
{
    my @due;
    $again->run_until('the pending rows arrive', sub {
        @due = grep { $_->{metadata}{source} eq 'due' } $again->notifications; @due > $done });
    $again->ack(map { $_->{metadata}{id} } @due[ $done .. $#due ]);
    $done = @due;
}
is(join(' ', grep { /due/ } split / /, received($again)), 'due10 due11 due12 due13 due14',
    'pending notifications of the new topic are delivered in order, without duplicates');
wait_until('all notifications are acknowledged', sub { $store->pending == 0 });

# Invalid requests are rejected and have no effect.
is(request($again, subscribe => 20, @$_), 107, 'a subscription is rejected: ' . substr join(' ', @$_), 0, 30)
  for [''], ['a*b'], ['*.a'], [ 'x' x 256 ], [], [ map { "t$_" } 1 .. 257 ], [ map { $_ . 'x' x 250 } 1 .. 60 ];
is(request($again, subscribe => 21, map { "t$_" } 1 .. 250), join(' ', sort 'p.a', 'p.due', map { "t$_" } 1 .. 250),
    '252 topics are accepted');
is(request($again, subscribe => 22, map { "u$_" } 1 .. 10), 107, 'more than 256 topics are rejected');
$id = insert('a');
$again->run_until('the row arrives', sub { received($again) =~ /a$id/ });
pass('rejected requests have no effect');

is($relay->stop, 0, 'SIGTERM ends the relay with status 0');
done_testing();
