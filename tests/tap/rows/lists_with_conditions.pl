# Tests lists of rows with conditions, an order, a limit and counts, over WebSocket and HTTP: they equal a query of the
# table, pages behind the last row lead to the end, and invalid requests are rejected without an error of the server.
use strict;
use warnings;
use utf8;

use Clairon::Test qw(wait_until token);
use JSON ();
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TYPE state AS ENUM ('open', 'done', 'gone');
    CREATE TABLE tasks (id int, part text, owner text, course int, state state, title text, price numeric(10,2), big int8, at timestamptz,
                        ok boolean, secret text, tags int[], PRIMARY KEY (part, id));
    ALTER TABLE tasks REPLICA IDENTITY FULL;
    CREATE TABLE large (id int PRIMARY KEY, text text);
    ALTER TABLE large REPLICA IDENTITY FULL;
    SELECT clairon.watch('tasks', 'USER', 'owner', live => true, filter_columns => '{course,state,title,price,big,at,ok,tags}');
    SELECT clairon.watch('tasks', 'ALL', name => 'all', live => true, filter_columns => '{course}');
    SELECT clairon.watch('tasks', 'STRUCTURE', 'owner', name => 'grp', live => true, filter_columns => '{course}');
    SELECT clairon.watch('tasks', 'USER', 'owner', name => 'plain', live => true);
    SELECT clairon.watch('large', 'ALL', live => true);
    INSERT INTO tasks SELECT i, 'p' || i % 2, CASE WHEN i % 4 = 0 THEN 'u2' ELSE 'u1' END, nullif(i % 7, 0), (enum_range(NULL::state))[i % 5],
        (ARRAY['a', 'B', 'é', 'b "q" \ %', '', NULL])[i % 6 + 1], (i % 9) / 4.0, CASE WHEN i % 3 = 0 THEN 9007199254740990 + i END,
        CASE WHEN i % 8 > 0 THEN timestamptz '2024-01-01 00:00Z' + (i % 8) * interval '1.5 days' END, nullif(i % 3, 0) = 1, 'secret', ARRAY[i % 2]
    FROM generate_series(1, 200) i;
    INSERT INTO large SELECT i, repeat('x', CASE i WHEN 40 THEN 150000 ELSE 4000 END) FROM generate_series(1, 60) i});
my $store = Clairon::Test::store();
our $relay = Clairon::Test::relay($pg, $store, conf => { 'rows.max_rows' => 100, 'rows.max_bytes' => '100kB' });
my $json  = JSON->new->canonical->allow_nonref;
my $next  = 10;
my $client = $relay->client('u1', groups => { STRUCTURE => ['u2'] });

# Returns the response over WebSocket: the fields of its pages, and all rows.
sub over_websocket
{
    my (%fields) = @_;
    my ($r, @pages) = ++$next;
    $client->send({ t => 'rows', r => $r, source => 'tasks', %fields });
    do
    {
        push @pages, $client->wait_for(sub { ($_[0]{r} // 0) == $r && !grep { $_ == $_[0] } @pages });
    } while ($pages[-1]{more});
    my %all = (%{ $pages[-1] }, %{ $pages[0] }, map({ $_ => $pages[-1]{$_} } grep { exists $pages[-1]{$_} } qw(more rest)));
    $all{rows} = [ map { @{ $_->{rows} } } @pages ] if $all{t} eq 'rows' && !exists $all{count};
    delete @all{qw(t r more)};
    $all{msg} = delete $all{detail} if exists $all{detail};
    return \%all;
}

sub encode { my ($text) = @_; utf8::encode($text); return $text =~ s/([^A-Za-z0-9_.-])/sprintf '%%%02x', ord $1/ger }

# The same over HTTP.
sub over_http
{
    my (%fields) = (source => 'tasks', @_);
    my $query = join '&', map { "$_=" . encode($_ =~ /^(?:source|rule|snapshot|pos)$/ ? $fields{$_} : $json->encode($fields{$_})) } sort keys %fields;
    my ($status, $body) = $relay->get("/v1/rows?$query", Authorization => 'Bearer ' . token(sub => 'u1', groups => { STRUCTURE => ['u2'] }));
    my $all = $status == 431 ? { code => 431 } : JSON::decode_json($body);
    is($status, { 103 => 403, 107 => 400, 113 => 413 }->{ $all->{code} }, "status of error $all->{code}") if ($all->{code} // 431) != 431;
    $all->{msg} = delete $all->{detail} if exists $all->{detail};
    delete @$all{qw(title status)};
    return $all;
}

my %over = (WebSocket => \&over_websocket, HTTP => \&over_http);
sub query { my ($sql) = @_; return join ' ', split /\n/, $pg->safe_psql('postgres', $sql) }
sub ids { my ($all) = @_; return join ' ', map { $_->{id} } @{ $all->{rows} } }

# Rows that meet the conditions, in their order.
my @orders = ([ undef, 'part, id' ], [ ['-at'], 'at DESC, part, id' ], [ [ 'state', '-id' ], 'state, id DESC, part' ], [ [ '-title', '-part', 'price' ], 'title DESC, part DESC, price, id' ]);
my %conditions = (
    'true'                                       => {},
    'course = 3'                                 => { course => 3 },
    q{course = 3 AND state = 'done'}             => { course => '3', state => 'done' },
    q{state IN ('open', 'gone')}                 => { state => [ 'open', 'gone' ] },
    'state IS NULL OR state = \'done\''          => { state => [ undef, 'done' ] },
    'false'                                      => { course => [] },
    'course IS NULL'                             => { course => undef },
    'course >= 2 AND course < 5'                 => { course => { from => 2, to => 5 } },
    'price < 1.25'                               => { price => { to => '1.25' } },
    q{at >= '2024-01-05 12:00Z' AND NOT ok}      => { at => { from => '2024-01-05T12:00:00Z' }, ok => JSON::false },
    'big = 9007199254741050'                     => { big => '9007199254741050' },
    'big >= 9007199254741050'                    => { big => { from => '9007199254741050' } },
    q{title = 'b "q" \ %'}                       => { title => 'b "q" \ %' },
    q{title = 'é'}                               => { title => 'é' },
    q{tags = '{1}'}                              => { tags => '{1}' });
for my $over (sort keys %over)
{
    my (@different, @counts);
    for my $sql (sort keys %conditions)
    {
        for my $order (@orders)
        {
            my ($wanted, $by) = @$order;
            my $all = $over{$over}->(limit => 100, where => $conditions{$sql}, $wanted ? (order => $wanted) : ());
            my $expected = query("SELECT id FROM tasks WHERE owner = 'u1' AND ($sql) ORDER BY $by LIMIT 100");
            my $has_rest = query("SELECT count(*) > 100 FROM tasks WHERE owner = 'u1' AND ($sql)") eq 't';
            push @different, "$sql by $by: @{[ $json->encode($all) ]}" if !$all->{rows} || ids($all) ne $expected || !!$all->{rest} ne $has_rest;
        }
        my $all = $over{$over}->(where => $conditions{$sql}, count => JSON::true);
        push @counts, "$sql: @{[ $json->encode($all) ]}"
          if ($all->{count} // '') ne query("SELECT count(*) FROM tasks WHERE owner = 'u1' AND ($sql)") || $all->{snapshot} !~ /^\d+:\d+:[\d,]*$/ || !$all->{judge} || $all->{rows};
    }
    is_deeply(\@different, [], "rows with conditions and an order equal a query of the table, over $over");
    is_deeply(\@counts, [], "counts equal a query of the table, also above rows.max_rows, over $over");
}

# Pages behind the last row.
for my $over (sort keys %over)
{
    for my $order (@orders)
    {
        my ($wanted, $by) = @$order;
        my @columns = map { s/^-//r } @{ $wanted // [] };
        push @columns, grep { my $key = $_; !grep { $_ eq $key } @columns } qw(part id);
        my ($all, @ids, @after);
        do
        {
            $all = $over{$over}->(limit => 13, where => {}, $wanted ? (order => $wanted) : (), @after);
            push @ids, map { $_->{id} } @{ $all->{rows} };
            @after = (after => [ @{ $all->{rows}[-1] }{@columns} ]);
        } while ($all->{rest} && @ids < 1000);
        is("@ids", query("SELECT id FROM tasks WHERE owner = 'u1' ORDER BY $by"), "pages ordered by $by contain all rows, over $over");
    }
}

# The response shows which columns the client may compare. Rules without filter_columns can be ordered by their key.
my $all = over_websocket(where => { course => 3, title => 'a' }, limit => 1);
ok((grep { $_ eq 'course' } @{ $all->{judge} }), 'an integer column can be compared by the client');
is(ids(over_websocket(rule => 'plain', order => [ '-id' ], limit => 3)), query(q{SELECT id FROM tasks WHERE owner = 'u1' ORDER BY id DESC LIMIT 3}), 'the key can order the rows of each rule');
is(ids(over_websocket(rule => 'grp', where => { course => 2 })), query(q{SELECT id FROM tasks WHERE owner = 'u2' AND course = 2 ORDER BY part, id}), 'a rule for groups returns only rows of the groups of the user');
is(ids(over_websocket(order => [], limit => 2)), query(q{SELECT id FROM tasks WHERE owner = 'u1' ORDER BY part, id LIMIT 2}), 'an empty order is that of the key');

# A column that is not allowed, and one that does not exist, return the error of an unknown rule.
for my $over (sort keys %over)
{
    my $unknown = $over{$over}->(rule => 'none', where => { course => 1 });
    $unknown->{msg} =~ s/"none"/"default"/;
    is($unknown->{code}, 103, "an unknown rule returns 103 over $over");
    for my $fields ([ where => { secret => 'secret' } ], [ where => { nothing => 1 } ], [ order => ['-secret'] ], [ order => ['nothing'] ], [ count => JSON::true, where => { secret => 'x' } ], [ where => { id => 1 } ])
    {
        is_deeply($over{$over}->(@$fields), $unknown, "@{[ $json->encode($fields) ]} returns the same error over $over");
    }
}

# Invalid requests name the field or the column.
my @invalid = (
    [ qr/"where" must be an object/, where => [] ], [ qr/"where" must be an object/, where => 'x' ], [ qr/"where" must be an object/, where => undef ],
    [ qr/column "course": /, where => { course => 'x' } ], [ qr/column "course": /, where => { course => 99999999999 } ], [ qr/column "state": /, where => { state => 'lost' } ],
    [ qr/column "course": /, where => { course => [ 1, [2] ] } ], [ qr/column "course"/, where => { course => { from => 1, above => 2 } } ],
    [ qr/column "course"/, where => { course => { from => undef } } ], [ qr/column "course"/, where => { course => {} } ], [ qr/column "at"/, where => { at => 'yesterday at noon' } ],
    [ qr/column "tags"/, where => { tags => [[1]] } ], [ qr/column "ok"/, where => { ok => 'perhaps' } ],
    [ qr/"order" must be an array/, order => 'id' ], [ qr/"order" must be an array/, order => [1] ], [ qr/order/, order => [ 'course', '-course' ] ],
    [ qr/"after" must be an array/, after => {} ], [ qr/after/, after => [1] ], [ qr/after/, after => [ 'p1', 1, 1 ] ], [ qr/after|column "id"/, after => [ 'p1', 'x' ] ],
    [ qr/"limit" must be an integer from 1/, limit => 0 ], [ qr/"limit" must be an integer from 1 to 100/, limit => 101 ], [ qr/"limit" must be an integer/, limit => '5' ], [ qr/"limit" must be an integer/, limit => 1.5 ],
    [ qr/"count" must be true/, count => JSON::false ], [ qr/"count" must be true/, count => 1 ], [ qr/"count" excludes/, count => JSON::true, limit => 5 ],
    [ qr/"count" excludes/, count => JSON::true, order => ['id'] ], [ qr/"snapshot" excludes "where"/, snapshot => '5:9:', where => {} ],
    [ qr/8192 bytes/, where => { title => [ ('x' x 97) x 82 ] }, order => ['id'] ]);
for my $over (sort keys %over)
{
    my @unexpected;
    for my $case (@invalid)
    {
        my ($error, %fields) = @$case;
        my $result = $over{$over}->(%fields);
        push @unexpected, "@{[ $json->encode(\%fields) ]}: @{[ $json->encode($result) ]}" if ($result->{code} // 0) != 107 || $result->{msg} !~ $error;
    }
    is_deeply(\@unexpected, [], "invalid requests return error 107, which names the field or the column, over $over");
}
for my $query ('where={', 'where={"course":1}x', 'limit=5%2c%22count%22:true', 'limit=', 'order=id', 'count=yes', 'where={"title":"%ff"}', 'where={"title":"\ud800"}', 'where={"big":1e-9999}', 'where={"title":"\u0000"}')
{
    my ($status, $body) = $relay->get("/v1/rows?source=tasks&" . ($query =~ s/[{}"\\]/sprintf '%%%02x', ord $&/ger), Authorization => 'Bearer ' . token(sub => 'u1'));
    my ($field) = $query =~ /^(\w+)/;
    is($status, 400, "$query returns 400");
    like(JSON::decode_json($body)->{detail}, qr/"$field[.\"]/, "the error of $query names the field");
}
is(over_http(where => { title => 'x' x 16000 })->{code}, 431, 'the head of a request is limited');
is_deeply([ grep { /live_rows|jsonb/ } slurp_file($pg->logfile) =~ /^.*(?:ERROR|STATEMENT): .*$/mg ], [], 'invalid requests cause no error of the server');
is(ids(over_websocket(where => { course => 2 })), query(q{SELECT id FROM tasks WHERE owner = 'u1' AND course = 2 ORDER BY part, id}), 'the connection stays open after invalid requests');

# Without a limit, rows.max_rows and rows.max_bytes are limits of the list. With one, they end the response.
is(over_websocket()->{code}, 113, 'more rows than rows.max_rows without a limit return 113');
is(over_websocket(order => ['-at'])->{code}, 113, 'also with an order');
for my $over (sort keys %over)
{
    my ($last, @sizes, @ids) = 0;
    do
    {
        $all = $over{$over}->(source => 'large', limit => 100, after => [$last]);
        push @sizes, scalar @{ $all->{rows} };
        push @ids, map { $_->{id} } @{ $all->{rows} };
        $last = $ids[-1];
    } while ($all->{rest});
    is("@ids", join(' ', 1 .. 60), "a response that is cut by rows.max_bytes is continued behind its last row, over $over");
    cmp_ok(scalar @sizes, '>=', 4, "several responses were needed: @sizes");
    is((grep { $_ == 1 } @sizes), 1, 'a row above rows.max_bytes is returned alone');
}

# The rows contain the changes up to the cursor of an event stream or a poll.
$pg->safe_psql('postgres', q{INSERT INTO tasks (id, part, owner, course) VALUES (1001, 'p1', 'u1', 3)});
my $change = $client->wait_for(sub { $_[0]{t} eq 'msg' && $_[0]{rule} eq 'default' && $_[0]{n}{payload}{after}{id} == 1001 });
is(ids(over_http(where => { course => 3 }, order => ['-id'], limit => 1, pos => $change->{pos})), '1001', 'rows with conditions contain the changes before a cursor');

# Only the log names the column of a denied request: the first of them within 10 s.
like($relay->log_text, qr/component=rows level=warn [^\n]*msg="request for rows denied" source="tasks" rule="default" error="column \\"secret\\" is not in filter_columns of rule \\"default\\"" hint=/,
    'the log names the rule and the column of a denied request');

# A character that the encoding of the database lacks.
$pg->safe_psql('postgres', q{CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0});
$pg->safe_psql('latin', q{
    CREATE EXTENSION clairon;
    CREATE TABLE tasks (id int PRIMARY KEY, title text);
    SELECT clairon.watch('tasks', 'ALL', live => true, filter_columns => '{title}');
    INSERT INTO tasks VALUES (1, 'a'), (2, U&'\00e9')});
{
    local $relay = Clairon::Test::relay(undef, $store, conf => { 'relay.roles' => 'gate', 'rows.conninfo' => $pg->connstr('latin') . ' user=relay' });
    is(ids(over_http(where => { title => 'é' })), '2', 'a value is converted to the encoding of the database');
    like(over_http(where => { title => '😀' })->{msg}, qr/character in "where" is not in the encoding of the database/, 'a character that it lacks is rejected');
    is(over_http(after => ['😀'])->{code}, 107, 'also in another field');
    ok(ids(over_http(where => { title => 'a' })), 'the connection to the database stays open');
}

# A change of memberships reloads a list, whatever its conditions.
over_websocket(rule => 'grp', where => { course => $_ }, limit => 5) for 1, 2;
$pg->safe_psql('postgres', q{INSERT INTO clairon.member VALUES ('STRUCTURE', 'u1', 'u1')});
my $reload = $client->wait_for(sub { $_[0]{t} eq 'reload' && $_[0]{rule} eq 'grp' });
ok($reload, 'a change of memberships sends reload');
is(over_websocket(rule => 'grp', where => { course => 2 }, count => JSON::true)->{count}, query(q{SELECT count(*) FROM tasks WHERE course = 2}), 'the next response contains the change');

done_testing();
