# Tests that no row is lost or stored twice when the relay is killed repeatedly under load.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

my $ROWS  = 10_000;
my $KILLS = 6;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner')});
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store);

my %seen;      # rows that the application processed: row id => number of times
my %known;     # notification ids that the application keeps
my $pos;
my $client = $relay->client('u1');
$pos = $client->pos;

# Processes a connection's notifications like an application that removes duplicates by id.
sub process
{
    my ($connection) = @_;
    for my $notification ($connection->notifications)
    {
        next if $known{ $notification->{metadata}{id} }++;
        $seen{ $notification->{payload}{after}{id} }++;
    }
    $pos = $connection->pos;
    return;
}

my $script = Clairon::Test::scratch() . '/rows.sql';
PostgreSQL::Test::Utils::append_to_file($script, join '',
    map { sprintf "INSERT INTO t SELECT i, 'u1' FROM generate_series(%d, %d) i;\n",
        $_ * 20 + 1, $_ * 20 + 20 } 0 .. $ROWS / 20 - 1);
my $writer = Clairon::Test::writer($pg, $script);

for my $kill (1 .. $KILLS)
{
    # Each kill occurs at a later point in the stream.
    my $wanted = $kill * $ROWS / ($KILLS + 2);
    wait_until("entry $wanted is stored", sub { $store->stored >= $wanted });
    $relay->kill9;
    $client->wait_closed;
    process($client);
    $relay->start;
    $relay->wait_ready;
    $client = $relay->client('u1', pos => $pos);
    ok($client->wait_for('connected')->{resumed}, "after kill $kill the client resumes");
}
$writer->finish;
wait_until('all rows are stored', sub { $store->stored >= $ROWS });
# If the writer ended before the last kill, the last row may have been delivered before the kill.
$client->wait_row($ROWS) unless $seen{$ROWS};
process($client);

my @entries = $store->entries;
is(scalar @entries, $ROWS, 'the stream contains each row exactly once');
my %ids = map { $_->{id} => 1 } @entries;
is(scalar keys %ids, $ROWS, 'each row has a distinct id');
my @order = map { $_->{data} =~ /"after":\{"id":(\d+)/ ? $1 : 'none' } @entries;
is_deeply(\@order, [ 1 .. $ROWS ], 'the stream is in commit order');
is(scalar keys %seen, $ROWS, 'the application receives every row');
is(scalar(grep { $_ != 1 } values %seen), 0, 'the application receives each row exactly once');

done_testing();
