# Tests that clients with old cursors do not take the store away: a table owner adds large rows, and each resume reads
# them one by one, while a neighbour's rows are delivered as usual.
use strict;
use warnings;

use Clairon::Test qw(of_mark wait_until);
use Clairon::Test::Neighbour;
use List::Util qw(max);
use Test::More;

my ($ROWS, $RESUMES, $MB) = (6, 4, 8);
my $pg = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store);
my $neighbour = Clairon::Test::Neighbour->new($pg, $relay, store => $store);

my $reader = $relay->client('reader');
$pg->safe_psql('postgres', q{SELECT clairon.notify('USER', '{reader}', '{"mark": "before"}')});
$reader->run_until('a notification arrives', sub { of_mark($reader, 'before') });
my $pos = $reader->pos;
$reader->close;

my @columns = map { "c$_" } 1 .. $MB;
$neighbour->run_as('mallory', 'CREATE TABLE mallory.t (id int PRIMARY KEY, owner text, ' . join(', ', map { "$_ text" } @columns) . ");
    SELECT clairon.watch('mallory.t', 'USER', 'owner')");
my $stored = $store->stored;
my $honest = $neighbour->worst_delay('large rows', join '', map { "INSERT INTO mallory.t VALUES ($_, 'nobody', "
    . join(', ', map { q{repeat('x', 1048000)} } @columns) . ');' } 1 .. $ROWS);
wait_until('the rows are stored', sub { $store->stored >= $stored + $ROWS });

# One large entry, read by a script.
my ($large) = map { $_->{stream} . ' ' . $_->{entry} } grep { length $_->{data} > 1e6 } $store->entries;
$neighbour->watch_store;
$store->execute('EVAL', q{return #redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1])}, 1, split / /, $large) for 1 .. 5;
my $one = $neighbour->store_longest;

$neighbour->watch_store;
my $worst = 0;
for my $i (1 .. $RESUMES)
{
    my $client = $relay->client('reader', pos => $pos);
    $worst = max $worst, $neighbour->delay_of_row;
    $pg->safe_psql('postgres', "SELECT clairon.notify('USER', '{reader}', '{\"mark\": \"$i\"}')");
    $client->run_until('the client has caught up', sub { of_mark($client, $i) });
    is($client->gaps, '', 'the resume is complete');
    $client->close;
}
my ($longest, $words, $waited) = $neighbour->store_longest;
note sprintf '%d rows of %d MB: the longest command takes %.0f ms (%s), to read one row takes %.0f ms', $ROWS, $MB, $longest, $words, $one;
cmp_ok($longest - $waited, '<=', 3 * $one + 50, 'no command of the store reads several large rows');
$neighbour->is_unnoticed('resumes that read large rows', $worst, $honest);

done_testing();
