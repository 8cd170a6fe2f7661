# Tests that a change with too many targets is counted in clairon.status and named by doctor, and that clients reload the
# lists of a live rule after it.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store);
my $next  = 10;

sub sql { my ($sql) = @_; return $pg->safe_psql('postgres', $sql) }

sub list
{
    my ($client) = @_;
    my $r = ++$next;
    $client->send({ t => 'rows', r => $r, source => 'own.t' });
    $client->wait_for(sub { ($_[0]{r} // 0) == $r && !$_[0]{more} });
    return join ' ', sort map { $_->{id} } map { @{ $_->{rows} } } grep { ($_->{r} // 0) == $r } @{ $client->{messages} };
}

sub reloads { my ($client) = @_; return scalar grep { $_->{t} eq 'reload' } @{ $client->{messages} } }

sql(q{CREATE ROLE mallory LOGIN; CREATE SCHEMA own AUTHORIZATION mallory; SET ROLE mallory;
    CREATE TABLE own.t (id int PRIMARY KEY, who text[]); ALTER TABLE own.t REPLICA IDENTITY FULL;
    INSERT INTO own.t VALUES (1, '{u1}'), (2, '{u1}'); SELECT clairon.watch('own.t', 'USER', 'who', live => true)});
my $client = $relay->client('u1');
is(list($client), '1 2', 'the list has the rows of the user');
my $known = reloads($client);
sql(q{SET ROLE mallory; UPDATE own.t SET who = (SELECT array_agg('u' || i) FROM generate_series(1, 10001) AS i)});
$client->run_until('a reload arrives', sub { reloads($client) > $known });
is(list($client), '', 'rows with too many targets are in no list');
is(reloads($client), $known + 1, 'one transaction causes one reload');
wait_until('the denials are reported', sub { (sql('SELECT denied FROM clairon.status') // '') ne '' });
is(sql(q{SELECT denied -> 0 ->> 'owner', denied -> 0 ->> 'account', denied -> 0 ->> 'changes' FROM clairon.status}), 'mallory|targets|2',
    'clairon.status counts the changes by owner');
like(sql(q{SELECT hint FROM clairon.doctor() WHERE check_name = 'account of mallory'}), qr/10000 targets/, 'doctor names the bound');
is(join(' ', sort map { "$_->{metadata}{operation} $_->{payload}{before}{id}" } $client->notifications), 'delete 1 delete 2',
    'a row that gets too many targets is deleted for its users');
sql(q{SET ROLE mallory; UPDATE own.t SET who = '{u1}' WHERE id = 2});
$client->wait_for(sub { $_[0]{t} eq 'msg' && $_[0]{n}{metadata}{operation} eq 'create' && $_[0]{n}{payload}{after}{id} == 2 });
is(list($client), '2', 'a row that has few targets again is created for them');
like($pg->can('log_content') ? $pg->log_content : PostgreSQL::Test::Utils::slurp_file($pg->logfile),
    qr/rule "default" on "own\.t": denied: more than 10000 targets/, 'the log names the rule');
done_testing();
