# Does a connection see the topics it asked for, live, on resume and of what is pending, and do others lose nothing?
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

# One row in each of the tables, in one transaction; returns its id.
sub insert
{
    my (@tables) = @_;
    $next++;
    $pg->safe_psql('postgres', join ';', 'BEGIN', (map { "INSERT INTO $_ VALUES ($next, 'u1')" } @tables), 'COMMIT');
    return $next;
}

# What the client was shown, as "a1 b1".
sub shown { return join ' ', map { "$_->{metadata}{source}$_->{payload}{after}{id}" } $_[0]->notifications }

sub ask
{
    my ($client, $t, $r, @topics) = @_;
    $client->send({ t => $t, r => $r, topics => \@topics });
    my $line = $client->wait_for(sub { ($_[0]{r} // 0) == $r && $_[0]{t} =~ /^(subscribed|err)$/ });
    return $line->{t} eq 'err' ? $line->{code} : join ' ', @{ $line->{topics} };
}

# Until everything up to row $id of each of the tables was shown to the one who sees all.
my $all = $relay->client('u1', win => 64);
sub settle
{
    my ($id, $table) = @_;
    $all->run_until("row $id", sub { shown($all) =~ /\b$table$id\b/ });
    return;
}

my $some = $relay->client('u1');
is(ask($some, subscribe => 3, 'p.a'), 'p.a', 'subscribe is answered with what is subscribed');
my $id = insert('b', 'a');
$some->run_until('its row', sub { shown($some) =~ /\ba$id\b/ });
is(shown($some), 'a1', 'only that topic is shown');
settle(1, 'a');
is(shown($all), 'b1 a1', 'who asked for nothing sees all');
is(ask($some, subscribe => 4, 'p.b*', 'p.a'), 'p.a p.b*', 'a second subscribe adds, what is there already once');
insert('b', 'a');
$some->run_until('both rows', sub { shown($some) =~ /a2/ });
is(shown($some), 'a1 b2 a2', 'both are shown, in their order');
is(ask($some, unsubscribe => 5, 'p.a', 'p.never'), 'p.b*', 'unsubscribe is answered with what is left');
insert('a', 'b');
$some->run_until('its row', sub { shown($some) =~ /b3/ });
is(shown($some), 'a1 b2 a2 b3', 'what was taken back is not shown');
is(ask($some, unsubscribe => 6, 'p.b*'), '', 'nothing may be left');
insert('a', 'b');
settle(4, 'b');
is(ask($some, subscribe => 7, '*'), '*', 'and everything asked for again');
insert('a');
$some->run_until('its row', sub { shown($some) =~ /a5/ });
is(shown($some), 'a1 b2 a2 b3 a5', 'what was hidden and needs no ack is not made up for');

# At connect, and with a position.
my $pos    = $some->pos;
insert('a', 'b') for 1 .. 3;
my $resumed = $relay->client('u1', pos => $pos, topics => ['p.b']);
insert('a', 'b');
$resumed->run_until('the last row', sub { shown($resumed) =~ /b9/ });
is(shown($resumed), 'b6 b7 b8 b9', 'a resume shows what was missed of the topics of the connect');

# What needs an ack and is hidden stays pending, and takes no room in the window.
$_->close for $some, $resumed, $all;
my $narrow = $relay->client('u1', win => 2, topics => ['p.a']);
insert('due') for 1 .. 5;
$id = insert('a');
$narrow->run_until('its row', sub { shown($narrow) =~ /a$id/ });
is(shown($narrow), "a$id", 'hidden messages that need an ack do not hold up the others');
is($store->pending, 5, 'they are pending');
my $again = $relay->client('u1', win => 2, topics => ['p.a']);
$id = insert('a');
$again->run_until('its row', sub { shown($again) =~ /a$id/ });
is(shown($again), "a$id", 'nor are they shown by a new connection that hides them');
is(ask($again, subscribe => 8, 'p.due'), 'p.a p.due', 'once they are asked for');
my $done = 0;
while ($done < 5)
{
    my @due;
    $again->run_until('more of them', sub {
        @due = grep { $_->{metadata}{source} eq 'due' } $again->notifications; @due > $done });
    $again->ack(map { $_->{metadata}{id} } @due[ $done .. $#due ]);
    $done = @due;
}
is(join(' ', grep { /due/ } split / /, shown($again)), 'due10 due11 due12 due13 due14',
    'they are shown, each once, in their order');
wait_until('all are acked', sub { $store->pending == 0 });

# What is not well asked for.
is(ask($again, subscribe => 20, @$_), 107, 'refused: ' . substr join(' ', @$_), 0, 30)
  for [''], ['a*b'], ['*.a'], [ 'x' x 256 ], [], [ map { "t$_" } 1 .. 257 ], [ map { $_ . 'x' x 250 } 1 .. 60 ];
is(ask($again, subscribe => 21, map { "t$_" } 1 .. 250), join(' ', sort 'p.a', 'p.due', map { "t$_" } 1 .. 250),
    'many are allowed');
is(ask($again, subscribe => 22, map { "u$_" } 1 .. 10), 107, 'but no more than 256');
$id = insert('a');
$again->run_until('its row', sub { shown($again) =~ /a$id/ });
pass('and nothing changed by that');

is($relay->stop, 0, 'SIGTERM ends the relay in good order');
done_testing();
