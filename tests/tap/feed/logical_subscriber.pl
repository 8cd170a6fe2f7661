# Tests a feed that reads from a logical subscriber with its own rules, for versions without decoding on a standby.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

my $primary = Clairon::Test::postgresql('primary', extension => 0);
my $node    = Clairon::Test::postgresql('node', conf => "max_slot_wal_keep_size = 1GB\n");
my $store   = Clairon::Test::store();
sub sql  { return $primary->safe_psql('postgres', $_[0]) }
sub node_sql { return $node->safe_psql('postgres', $_[0]) }

my $table = 'CREATE TABLE assignments (id int PRIMARY KEY, student_id text); ALTER TABLE assignments REPLICA IDENTITY FULL;';
sql("$table CREATE PUBLICATION for_clairon FOR TABLE assignments; INSERT INTO assignments VALUES (1, 'u1')");
node_sql("$table SELECT clairon.watch('assignments', 'USER', 'student_id')");
my $relay  = Clairon::Test::relay($node, $store, conf => { 'gate.max_connections' => 100 });
my $client = $relay->client('u1');
node_sql("CREATE SUBSCRIPTION for_clairon CONNECTION \$\$" . $primary->connstr('postgres') . '$$ PUBLICATION for_clairon');

sub operations { return join ' ', map { "$_->{metadata}{operation}:" . ($_->{payload}{after} // $_->{payload}{before})->{id} } $client->notifications }

$client->run_until('the existing row arrives', sub { operations() eq 'create:1' });
pass('rows of the initial copy are delivered as created');
wait_until('the initial copy is complete', sub {
    node_sql(q{SELECT count(*) FROM pg_subscription_rel WHERE srsubstate <> 'r'}) eq '0' });
sql(q{INSERT INTO assignments VALUES (2, 'u1'), (3, 'u2')});
sql(q{BEGIN; UPDATE assignments SET student_id = 'u1' WHERE id = 3; DELETE FROM assignments WHERE id = 1; COMMIT});
sql(q{BEGIN; INSERT INTO assignments VALUES (4, 'u1'); ROLLBACK});
sql(q{INSERT INTO assignments VALUES (5, 'u1')});
$client->run_until('the last notification arrives', sub { operations() =~ /:5$/ });
is(operations(), 'create:1 create:2 create:3 delete:1 create:5', 'changes from the primary are delivered in order, according to the subscriber\'s rules');

# Restarts of the subscriber and the primary cause no loss and no duplicates.
$node->restart;
$primary->restart;
sql(q{INSERT INTO assignments VALUES (6, 'u1')});
$client->run_until('the later row arrives', sub { operations() =~ /:6$/ });
is(operations(), 'create:1 create:2 create:3 delete:1 create:5 create:6', 'changes are delivered in order after restarts of both servers');
my %ids = map { $_->{metadata}{id} => 1 } $client->notifications;
is(scalar(keys %ids), 6, 'each notification has a distinct id');
is(node_sql(q{SELECT string_agg(check_name, ', ') FROM clairon.doctor() WHERE NOT ok}), '', 'the doctor reports no problem');
is(sql('SELECT count(*) FROM pg_available_extensions WHERE installed_version IS NOT NULL AND name = \'clairon\''), 0,
    'the primary needs no extension');

done_testing();
