# Tests that clients reload the lists of a live rule after changes that an account of the table's owner has denied.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use JSON ();
use Test::More;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store, conf => { 'feed.owner_bytes' => '1MB' });
my $next  = 10;
my $rules = 150;

sub sql { my ($sql) = @_; return $pg->safe_psql('postgres', $sql) }

# Returns the ids of the rows in the user's list.
sub list
{
    my ($client) = @_;
    my $r = ++$next;
    $client->send({ t => 'rows', r => $r, source => 'own.t', rule => 'r1' });
    $client->wait_for(sub { ($_[0]{r} // 0) == $r && !$_[0]{more} });
    return join ' ', sort { $a <=> $b } map { $_->{id} } map { @{ $_->{rows} } } grep { ($_->{r} // 0) == $r } @{ $client->{messages} };
}

# Returns the number of reloads that the client has received for each rule.
sub reloads
{
    my ($client) = @_;
    my %count;
    $count{ $_->{rule} // '' }++ for grep { $_->{t} eq 'reload' } @{ $client->{messages} };
    return \%count;
}

sql(qq{CREATE ROLE mallory LOGIN; CREATE SCHEMA own AUTHORIZATION mallory;
    SET ROLE mallory;
    CREATE TABLE own.t (id int PRIMARY KEY, owner text, v numeric);
    ALTER TABLE own.t REPLICA IDENTITY FULL;
    SELECT clairon.watch('own.t', 'USER', 'owner', name => 'r1', live => true);
    RESET ROLE; CREATE TABLE other (id int)});
my $client = $relay->client('u1');
is(list($client), '', 'the list is empty');
my $known = reloads($client)->{r1} // 0;
sql(q{SET ROLE mallory; INSERT INTO own.t SELECT i, 'u1', 1e100000 FROM generate_series(1, 20) AS i});
$client->run_until('a reload of the denied rule arrives', sub { (reloads($client)->{r1} // 0) > $known });
is(list($client), join(' ', 1 .. 20), 'the list that is read again has the rows that were denied');
is(reloads($client)->{r1}, $known + 1, 'one transaction causes one reload');
my $sent = grep { $_->{payload}{after}{id} } $client->notifications;
cmp_ok($sent, '>', 5, 'rows are sent until the account is used up');
cmp_ok($sent, '<', 15, 'the other rows are denied');
sql('SET ROLE mallory; ' . join ';', map { "INSERT INTO own.t VALUES ($_, 'u1', 1)" } 21, 22);
$client->run_until('a later transaction causes another reload', sub { (reloads($client)->{r1} // 0) > $known + 1 });
is(list($client), join(' ', 1 .. 22), 'that list has the rows of the later transaction');

$client->close;

# Returns the rules of the reload frames in the slot, by transaction in commit order.
sub reload_frames
{
    my $hex = sql(q{SELECT string_agg(encode(data, 'hex'), '') FROM pg_logical_slot_get_binary_changes('frames', NULL, NULL,
        'mode', 'framed', 'owner_bytes', '1MB')});
    my ($bytes, @transactions, @rules, $last) = (pack 'H*', $hex);
    while (length $bytes)
    {
        my ($length, $kind, $ordinal) = unpack 'N a x11 Q>', $bytes;
        my $frame = substr $bytes, 0, $length, '';
        die 'ordinals do not increase' if @rules && $ordinal <= $last;
        $last = $ordinal;
        push @rules, substr $frame, 36 + unpack 'n', substr $frame, 32, 2 if $kind eq 'R';
        next if $kind ne 'C';
        push @transactions, [@rules] if @rules;
        @rules = ();
    }
    return @transactions;
}

# More live rules than reloads in a second.
sql(qq{SELECT clairon.watch('own.t', 'USER', 'owner', name => 'r' || i, live => true) FROM generate_series(2, $rules) AS i;
    SELECT pg_create_logical_replication_slot('frames', 'clairon');
    SET ROLE mallory; INSERT INTO own.t SELECT i, 'u1', 1e100000 FROM generate_series(101, 120) AS i});
my $since = sql('SELECT extract(epoch FROM now())::bigint');
wait_until('a second of commit time has passed',
    sub { sql('INSERT INTO other VALUES (1) RETURNING extract(epoch FROM now())::bigint') > $since + 1 });
my @transactions = reload_frames();
is(scalar @{ $transactions[0] }, 100, 'one transaction of an owner causes 100 reloads at most');
my %seen = map { $_ => 1 } map { @$_ } @transactions;
is(scalar keys %seen, $rules, 'later transactions cause the reloads of the other rules');
is(scalar(map { @$_ } @transactions), $rules, 'each rule is reloaded once');
done_testing();
