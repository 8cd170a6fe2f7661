# Tests that clients reload the lists of a live rule after changes that an account of the table's owner has denied.
use strict;
use warnings;

use Clairon::Test;
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
    my ($client, $rule) = @_;
    my $r = ++$next;
    $client->send({ t => 'rows', r => $r, source => 'own.t', rule => $rule // 'r1' });
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


# More live rules than reloads by name in a second. The names sort in the order of their numbers.
sql(qq{SELECT clairon.watch('own.t', 'USER', 'owner', name => 's' || i, live => true) FROM generate_series(1000, 999 + $rules) AS i});
my $last = 's' . (999 + $rules);
list($client, $last);
$known = reloads($client)->{$last} // 0;
sql(q{SET ROLE mallory; INSERT INTO own.t SELECT i, 'u1', 1e100000 FROM generate_series(101, 120) AS i});
$client->run_until('the list of the last rule is reloaded, and no later transaction is necessary', sub { (reloads($client)->{$last} // 0) > $known });
$client->close;

# Returns the rules of the reload frames in the slot by source, for each transaction with such frames, in commit order.
sub reload_frames
{
    my $hex = sql(q{SELECT string_agg(encode(data, 'hex'), '') FROM pg_logical_slot_get_binary_changes('frames', NULL, NULL,
        'mode', 'framed', 'owner_bytes', '1MB')});
    my ($bytes, @transactions, $rules, $last) = (pack 'H*', $hex);
    while (length $bytes)
    {
        my ($length, $kind, $ordinal) = unpack 'N a x11 Q>', $bytes;
        my $frame = substr $bytes, 0, $length, '';
        die 'ordinals do not increase' if $rules && $ordinal <= $last;
        $last = $ordinal;
        my $source = unpack 'n', substr $frame, 32, 2;
        push @{ $rules->{ substr $frame, 36, $source } }, substr $frame, 36 + $source if $kind eq 'R';
        next if $kind ne 'C';
        push @transactions, $rules if $rules;
        $rules = undef;
    }
    return @transactions;
}

sql(q{SELECT pg_create_logical_replication_slot('frames', 'clairon');
    SET ROLE mallory; INSERT INTO own.t SELECT i, 'u1', 1e100000 FROM generate_series(201, 220) AS i});
my @transactions = reload_frames();
is(scalar @transactions, 1, 'the reloads are in the transaction of the changes');
my @named = grep { $_ ne '' } @{ $transactions[0]{'own.t'} };
is(scalar @named, 100, 'one transaction of an owner reloads 100 rules by name at most');
is(scalar(@{ $transactions[0]{'own.t'} } - @named), 1, 'one frame reloads the other rules of the table');

# Two owners, one with many denied rules.
sql(q{CREATE ROLE alice; CREATE SCHEMA alice AUTHORIZATION alice; SET ROLE alice;
    CREATE TABLE alice.t (id int PRIMARY KEY, owner text, v numeric);
    ALTER TABLE alice.t REPLICA IDENTITY FULL;
    SELECT clairon.watch('alice.t', 'USER', 'owner', live => true);
    RESET ROLE;
    INSERT INTO clairon.rule SELECT (jsonb_populate_record(rule, jsonb_build_object('name', 't' || i))).*
        FROM clairon.rule, generate_series(1, 4200) AS i WHERE relation = 'own.t'::regclass AND name = 'r1'});
reload_frames();
sql(q{SET ROLE mallory; INSERT INTO own.t SELECT i, 'u1', 1e100000 FROM generate_series(301, 303) AS i});
sql(q{SET ROLE alice; INSERT INTO alice.t SELECT i, 'u1', 1e100000 FROM generate_series(1, 20) AS i});
@transactions = reload_frames();
is(scalar @transactions, 2, 'both transactions have reloads');
is($transactions[0]{'own.t'}[-1], '', 'all lists of a table with thousands of denied rules are reloaded');
is_deeply($transactions[1], { 'alice.t' => ['default'] }, 'the denied rule of another owner is reloaded');
done_testing();
